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

// Work says how far something has come.
type Work struct {
	Name  string // what is worked on; another name is other work
	Done  int
	Total int    // 0 while it is not known: nothing is counted then
	Unit  string // of both, "files"
	Note  string // what else there is to say, "12,001 chunks"; ""
}

// A Progress shows a person how far work has come: on a terminal in one line that
// is written over, elsewhere in a line every ten seconds. It is plain text, without
// colours. A nil Progress shows nothing. It is safe for concurrent use.
type Progress struct {
	Writer   io.Writer
	Terminal bool       // whether a line can be written over
	Width    func() int // columns, asked for each line; nil, or 0 from it, is 80
	Now      func() time.Time

	mu    sync.Mutex
	work  Work
	first int       // done when the work was first shown
	since time.Time // when that was
	last  time.Time // when a line was written, or the first one put off
	shown int       // columns of the line on the terminal
	idle  bool      // cleared, and nothing shown since
}

// NewProgress writes to w, for a terminal of the kind that the environment names.
func NewProgress(w io.Writer, term string) *Progress {
	return &Progress{Writer: w, Terminal: IsTerminal(w) && term != "dumb", Width: func() int { return Columns(w) }, Now: time.Now}
}

// IsTerminal tells whether w is a terminal, so that a person reads it.
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
	rateAfter    = time.Second // before, a rate is a guess
	defaultWidth = 80
	minBar       = 12 // columns, with the brackets
	maxBar       = 32
)

// Show shows a state, unless one was shown less than 100 ms before, or 10 s where there is
// no terminal.
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

// Repeat says again how far the work is whenever nothing was written for ten seconds, until
// ctx ends: one large file may take minutes. On a terminal the line is there anyway.
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

// Line tells in one line how far work has come in a time, for a log.
func Line(w Work, took time.Duration) string {
	start := time.Unix(0, 0)
	p := Progress{work: w, since: start}
	return p.line(start.Add(took), math.MaxInt)
}

// Clear empties the line, for something else to be written there; nothing is repeated until
// the next Show.
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
		// A terminal that became narrower has wrapped the old line: spaces beyond its
		// width would wrap too.
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

// line tells the state in so many columns. What matters least is left out first.
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

// count is "1,204 of 9,870 files".
func (w Work) count() string {
	if w.Total == 0 {
		return ""
	}
	return strings.TrimRight(Thousands(w.Done)+" of "+Thousands(w.Total)+" "+Clean(w.Unit), " ")
}

// pace is how much is done in a second, and how long the rest takes at that rate.
func (p *Progress) pace(now time.Time) (rate, left string) {
	took, done := now.Sub(p.since), p.work.Done-p.first
	if took < rateAfter || done <= 0 || p.work.Total == 0 {
		return "", ""
	}
	perSecond := float64(done) / took.Seconds()
	switch {
	case perSecond >= 10:
		rate = Thousands(int(perSecond)) + "/s"
	case perSecond >= 0.1: // below, the time that is left says more
		rate = fmt.Sprintf("%.1f/s", perSecond)
	}
	if rest := p.work.Total - p.work.Done; rest > 0 {
		left = remaining(float64(rest)/perSecond) + " left"
	}
	return rate, left
}

// remaining writes seconds as a person would guess them.
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

// bar draws a share in so many columns. It is full when all is done, and not before.
func bar(done, total, wide int) string {
	inner := wide - 2
	full := int(int64(inner) * int64(min(max(done, 0), total)) / int64(total))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", inner-full) + "]"
}

// join puts two spaces between parts that are not empty.
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
