package serving

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// An Output is the log of serve: lines for a person, or JSON.
type Output struct {
	Recorder report.Recorder // of requests
	Logger   *slog.Logger
	writer   *report.AsyncWriter
	log      *report.Log // nil: lines for a person

	mu   sync.Mutex
	told map[string]notice

	order   sync.Mutex
	paused  bool     // lines of inOrder are held back
	waiting []func() // these lines
}

// A notice is a line written by Log.
type notice struct {
	level   slog.Level
	at      time.Time // when it was last written
	omitted int       // repetitions since then
}

// tellEvery is the minimum time between repetitions of a line; at most maxTold lines are
// remembered.
const (
	tellEvery = time.Minute
	maxTold   = 1000
)

// Log writes a line about an event outside of requests. A repeated line is written once a minute,
// with the number of repetitions that were omitted.
func (o *Output) Log(level slog.Level, line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	last, again := o.told[line]
	if again && now.Sub(last.at) < tellEvery {
		last.omitted++
		o.told[line] = last
		return
	}
	delete(o.told, line)
	o.forget(now)
	if len(o.told) < maxTold {
		o.told[line] = notice{level: level, at: now}
	}
	o.note(now, level, line, last.omitted)
}

// forget drops lines that were last written more than tellEvery ago, and writes their omitted
// repetitions.
func (o *Output) forget(now time.Time) {
	for line, last := range o.told {
		if now.Sub(last.at) < tellEvery {
			continue
		}
		delete(o.told, line)
		if last.omitted > 0 {
			o.note(now, last.level, line, last.omitted-1)
		}
	}
}

// note writes a line, with the number of omitted repetitions.
func (o *Output) note(now time.Time, level slog.Level, line string, omitted int) {
	if omitted > 0 {
		line = fmt.Sprintf("%s (and %d times more)", line, omitted)
	}
	if o.log != nil {
		o.Logger.Log(context.Background(), level, line)
		return
	}
	fmt.Fprintln(o.writer, terminal.Note(now, line))
}

// Lines returns a writer of lines that are neither folded nor formatted.
func (o *Output) Lines() io.Writer { return o.writer }

// Dropped returns the number of lines that were dropped because the log blocked.
func (o *Output) Dropped() int64 { return o.writer.Dropped() }

// closeWait limits how long a blocked log may delay the end of the process.
const closeWait = time.Second

// NewOutput returns an Output that writes to w: for a person if w is a terminal or the
// configuration says so, else JSON. Close it.
func NewOutput(w io.Writer, cfg config.Log) *Output {
	o := &Output{writer: report.NewAsyncWriter(w), told: map[string]notice{}}
	if cfg.Format == "text" || cfg.Format == "auto" && terminal.IsTerminal(w) {
		o.Logger = slog.New(slog.NewTextHandler(o.writer, nil))
		o.Recorder = &lines{w: o.writer, requests: report.LogVerbosity(cfg.Requests)}
		return o
	}
	o.Logger = slog.New(slog.NewJSONHandler(o.writer, nil))
	o.log = &report.Log{Logger: o.Logger, Lines: o.writer, Requests: report.LogVerbosity(cfg.Requests)}
	o.Recorder = o.log
	return o
}

// Close writes the pending lines, for at most a second.
func (o *Output) Close() {
	if o.log != nil {
		o.log.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_ = o.writer.Close(ctx) // there is nowhere to report an error
}

// lines writes a line for each request, for a person.
type lines struct {
	w        io.Writer
	requests report.LogVerbosity
	noted    sync.Map // routes that were reported as relayed unchanged
}

// Record writes the line of r.
func (l *lines) Record(r *report.Report) {
	if r.Reason == rewrite.ReasonRoute && r.Route.Generates() {
		if _, said := l.noted.LoadOrStore(r.Route, true); !said {
			l.write([]byte(terminal.Note(r.Time, "/v1/"+string(r.Route)+" relayed unchanged; sources go to /chat/completions, /responses, /messages (once per route)")))
		}
	}
	if !l.requests.Wants(r) {
		return
	}
	ledger := &r.Rewrite.Ledger
	line := terminal.Request{
		Time: r.Time, ID: r.ID, Status: r.Status, Model: ledger.Model, Outcome: string(r.Outcome), Reason: string(r.Reason),
		Sources: r.Sources(), Tokens: ledger.Used, Inexact: ledger.Exactness != rewrite.Exact, Overhead: r.Overhead,
	}
	if r.Client != report.ClientCompleted {
		line.End = string(r.Client)
	}
	all := ledger.Sources
	if t := r.Tools; t != nil {
		line.Calls, line.Sources, line.Tokens = t.Called(), line.Sources+len(t.Sources), line.Tokens+t.Tokens
		all = slices.Concat(all, t.Sources)
	}
	for _, src := range all {
		if src.ID > 0 {
			line.Docs = append(line.Docs, src.Doc)
		}
	}
	l.write(terminal.Append(nil, line))
}

func (l *lines) write(line []byte) {
	_, _ = l.w.Write(append(line, '\n')) // an AsyncWriter counts what it drops
}
