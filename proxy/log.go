package proxy

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// Verbosity says which requests get a line in the log.
type Verbosity string

// The verbosities.
const (
	LogAll    Verbosity = "all"
	LogErrors Verbosity = "errors" // answers of 400 and above, truncated ones, aborted ones
	LogNone   Verbosity = "none"
)

// repeatEvery is how often a degradation that goes on is said again, as a count.
const repeatEvery = time.Minute

// A Log writes one wide line for each request: ids and numbers, never a body, a
// query or a secret. A degradation is said once as a warning and then as a count
// a minute; that a route passes unchanged is said once. Its Logger should write
// to an AsyncWriter, for Record is called on the data path.
type Log struct {
	Logger   *slog.Logger
	Requests Verbosity // "" is LogAll
	// Lines takes the lines of requests as JSON, in one write each and in the form
	// of slog's JSON handler but at a fraction of its cost; nil: they go to Logger.
	Lines io.Writer

	spaces sync.Pool // of *line

	mu      sync.Mutex
	noted   map[Route]bool
	ongoing map[degradation]*recurrence
}

// A degradation is a helper that failed and how.
type degradation struct {
	stage  string
	reason rewrite.Reason
}

// A recurrence counts a degradation since it was last said.
type recurrence struct {
	count int
	timer *time.Timer
}

// Record writes r's line and what else there is to say.
func (l *Log) Record(r *Report) {
	if r.Degraded() {
		l.degraded(degradation{"retrieval", r.Rewrite.Reason})
	}
	if r.Reason == rewrite.ReasonRoute {
		l.note(r.Route)
	}
	switch {
	case !l.wants(r):
	case l.Lines != nil:
		l.writeLine(r)
	default:
		attrs := Attrs(r)
		l.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs[:]...)
	}
}

func (l *Log) writeLine(r *Report) {
	space, _ := l.spaces.Get().(*line)
	if space == nil {
		space = new(line)
	}
	text := space.write(r)
	_, _ = l.Lines.Write(text) // where a log cannot be written, nothing can be said
	transport.Poison(text)
	l.spaces.Put(space)
}

func (l *Log) wants(r *Report) bool {
	switch l.Requests {
	case LogNone:
		return false
	case LogErrors:
		return r.Status >= 400 || r.Truncated || r.Client != ClientCompleted
	}
	return true
}

// Attrs returns the fields of r's line in their order.
func Attrs(r *Report) [24]slog.Attr {
	l := &r.Rewrite.Ledger
	return [...]slog.Attr{
		slog.String("id", r.ID),
		slog.String("tenant", r.Tenant),
		slog.String("policy", r.Policy),
		slog.String("policy_hash", r.PolicyHash),
		slog.String("upstream", r.Upstream),
		slog.String("route", string(r.Route)),
		slog.String("model", r.Model()),
		slog.Bool("stream", r.Stream),
		slog.Int("status", r.Status),
		slog.String("outcome", string(r.Outcome)),
		slog.String("reason", string(r.Reason)),
		slog.Int("sources", r.Sources()),
		slog.Int("context_tokens", l.Used),
		slog.Int("context_budget", l.Budget),
		slog.String("exact", string(l.Exactness)),
		slog.String("cache", string(r.Rewrite.Retrieval.Cache)),
		slog.String("planner", plannerOff),
		slog.Float64("overhead_ms", milliseconds(r.Overhead)),
		slog.Float64("retrieval_ms", milliseconds(r.Rewrite.RetrieveTook)),
		slog.Float64("ttfb_ms", milliseconds(r.TTFB)),
		slog.Float64("duration_ms", milliseconds(r.Total)),
		slog.Bool("truncated", r.Truncated),
		slog.Bool("retried", r.Retried),
		slog.String("client", string(r.Client)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// note says once for each route that it passes unchanged.
func (l *Log) note(r Route) {
	l.mu.Lock()
	said := l.noted[r]
	if !said {
		if l.noted == nil {
			l.noted = make(map[Route]bool)
		}
		l.noted[r] = true
	}
	l.mu.Unlock()
	if !said {
		l.Logger.Info("a route passes unchanged; sources are added to /chat/completions only (said once)", "route", string(r))
	}
}

// degraded says d at once when it is news, and otherwise counts it for the next
// minute's line. A minute without one makes it news again.
func (l *Log) degraded(d degradation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.ongoing[d]; o != nil {
		o.count++
		return
	}
	if l.ongoing == nil {
		l.ongoing = make(map[degradation]*recurrence)
	}
	o := &recurrence{}
	o.timer = panics.AfterFunc(l.panicked, repeatEvery, func() { l.repeat(d) })
	l.ongoing[d] = o
	l.Logger.Warn("degraded: requests go on without it", "stage", d.stage, "reason", string(d.reason))
}

func (l *Log) panicked(value any, stack []byte) {
	l.Logger.Error("BUG: panic", "panic", value, "stack", string(stack))
}

func (l *Log) repeat(d degradation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ongoing[d]
	if o == nil {
		return // closed
	}
	if o.count == 0 {
		delete(l.ongoing, d)
		return
	}
	l.Logger.Warn("still degraded", "stage", d.stage, "reason", string(d.reason), "requests", o.count)
	o.count = 0
	o.timer.Reset(repeatEvery)
}

// Close says the counts that are due and ends the timers.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, o := range l.ongoing {
		o.timer.Stop()
		if o.count > 0 {
			l.Logger.Warn("still degraded", "stage", d.stage, "reason", string(d.reason), "requests", o.count)
		}
	}
	l.ongoing = nil
}
