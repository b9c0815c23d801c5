package terminal

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
)

// Work is the progress of a task.
type Work struct {
	Name  string // of the task; another name is another task
	Done  int
	Total int    // 0 if unknown: nothing is counted then
	Unit  string // of both, such as "files"
	Note  string // more to show, such as "12,001 chunks"; or ""
}

// A Progress shows the progress of work: on a terminal on one line that is redrawn, elsewhere on a
// line every ten seconds. It writes plain text without colours. A nil Progress shows nothing. It
// is safe for concurrent use.
//
// schollz/progressbar would draw the bar and redraw the line, 13 of the 197 lines of code here. Its
// own counts ("(1204/9870, 427 files/s) [2s:20s]") have no separators and no note, keep their width
// on a narrow terminal, and are redrawn with carriage returns in a log too.
type Progress struct {
	Writer   io.Writer
	Terminal bool       // whether the line can be redrawn
	Width    func() int // columns, called for each line; nil or a result of 0 means 80
	Now      func() time.Time

	mu    sync.Mutex
	work  Work
	first int       // Done when the task was first shown
	since time.Time // time of that
	last  time.Time // when a line was last written, or the first one deferred
	shown int       // columns of the line on the terminal
	idle  bool      // cleared, and nothing shown since
}

// NewProgress returns a Progress that writes to w; term is the kind of terminal as in $TERM.
func NewProgress(w io.Writer, term string) *Progress {
	return &Progress{Writer: w, Terminal: IsTerminal(w) && term != "dumb", Width: func() int { return Columns(w) }, Now: time.Now}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	redrawEvery  = 100 * time.Millisecond
	speakEvery   = 10 * time.Second
	rateAfter    = time.Second // an earlier rate would be a guess
	defaultWidth = 80
	minBar       = 12 // columns, including the brackets
	maxBar       = 32
)

// Show shows the state, unless one was shown less than 100 ms ago, or 10 s ago without a terminal.
func (p *Progress) Show(w Work) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	p.idle = false
	if p.since.IsZero() && !p.Terminal {
		p.last = now // short work needs no line
	}
	if p.since.IsZero() || w.Name != p.work.Name {
		p.first, p.since = w.Done, now
	}
	p.work = w
	switch {
	case p.Terminal && (p.last.IsZero() || now.Sub(p.last) >= redrawEvery):
		p.draw(p.line(now, p.width()-1)) // many terminals wrap a full line
	case !p.Terminal && now.Sub(p.last) >= speakEvery:
		fmt.Fprintln(p.Writer, p.line(now, p.width()))
	default:
		return
	}
	p.last = now
}

// Repeat repeats the state whenever nothing was written for ten seconds, until ctx ends: one large
// file may take minutes. It does nothing on a terminal, where the line remains visible.
func (p *Progress) Repeat(ctx context.Context) {
	if p == nil || p.Terminal {
		return
	}
	ticks := time.NewTicker(time.Second) // a tick late at most
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			p.repeat()
		case <-ctx.Done():
			return
		}
	}
}

func (p *Progress) repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Now(); !p.idle && !p.since.IsZero() && now.Sub(p.last) >= speakEvery {
		fmt.Fprintln(p.Writer, p.line(now, p.width()))
		p.last = now
	}
}

// Line formats the progress of work after a time on one line, for a log.
func Line(w Work, took time.Duration) string {
	start := time.Unix(0, 0)
	p := Progress{work: w, since: start}
	return p.line(start.Add(took), math.MaxInt)
}

// Clear clears the line, for other output; nothing is repeated until the next Show.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = true
	if p.shown > 0 {
		p.draw("")
		fmt.Fprint(p.Writer, "\r")
	}
}

// draw writes text over the line, if there is one.
func (p *Progress) draw(text string) {
	wide := columns(text)
	if p.Terminal {
		// A terminal that became narrower has wrapped the old line; spaces beyond its width would
		// wrap too.
		text = "\r" + text + strings.Repeat(" ", max(0, min(p.shown, p.width()-1)-wide))
	}
	fmt.Fprint(p.Writer, text)
	p.shown = wide
}

func (p *Progress) width() int {
	if p.Width != nil {
		if n := p.Width(); n > 0 {
			return n
		}
	}
	return defaultWidth
}

// line formats the state in so many columns, dropping the least important parts first.
func (p *Progress) line(now time.Time, wide int) string {
	w := p.work
	name, count, note := Clean(w.Name), w.count(), Clean(w.Note)
	rate, left := p.pace(now)
	var text string
	for _, text = range []string{
		join(count, note, rate, left), join(count, note, left), join(count, left), count,
	} {
		if columns(join(name, text)) <= wide {
			break
		}
	}
	if space := wide - columns(join(name, "", text)) - 2; p.Terminal && w.Total > 0 && space >= minBar {
		return join(name, bar(w.Done, w.Total, min(space, maxBar)), text)
	}
	return cut(join(name, text), wide)
}

// count formats a count such as "1,204 of 9,870 files".
func (w Work) count() string {
	if w.Total == 0 {
		return ""
	}
	return strings.TrimRight(Thousands(w.Done)+" of "+Thousands(w.Total)+" "+Clean(w.Unit), " ")
}

// pace returns the rate per second, and the time left at that rate.
func (p *Progress) pace(now time.Time) (rate, left string) {
	took, done := now.Sub(p.since), p.work.Done-p.first
	if took < rateAfter || done <= 0 || p.work.Total == 0 {
		return "", ""
	}
	perSecond := float64(done) / took.Seconds()
	switch {
	case perSecond >= 10:
		rate = Thousands(int(perSecond)) + "/s"
	case perSecond >= 0.1: // below, the time left says more
		rate = fmt.Sprintf("%.1f/s", perSecond)
	}
	if rest := p.work.Total - p.work.Done; rest > 0 {
		left = remaining(float64(rest)/perSecond) + " left"
	}
	return rate, left
}

// remaining formats seconds as a rounded time.
func remaining(seconds float64) string {
	const minute, hour = 60, 3600
	switch n := int(math.Ceil(min(seconds, 1e9))); {
	case n < 100:
		return fmt.Sprintf("%d s", n)
	case n < 100*minute:
		return fmt.Sprintf("%d min", (n+minute-1)/minute)
	default:
		return fmt.Sprintf("%s h", Thousands((n+hour-1)/hour))
	}
}

// bar draws a share in so many columns. It is full only when all is done.
func bar(done, total, wide int) string {
	inner := wide - 2
	full := int(int64(inner) * int64(min(max(done, 0), total)) / int64(total))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", inner-full) + "]"
}

// join joins the non-empty parts with two spaces.
func join(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		if part != "" && b.Len() > 0 {
			b.WriteString("  ")
		}
		b.WriteString(part)
	}
	return b.String()
}
