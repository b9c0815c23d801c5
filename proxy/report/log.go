package report

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// LogVerbosity says which requests get a line in the log.
type LogVerbosity string

// The verbosities of the request log.
const (
	LogAll    LogVerbosity = "all"
	LogErrors LogVerbosity = "errors" // status 400 and above, truncated answers, clients that left
	LogNone   LogVerbosity = "none"
)

// repeatEvery is the interval at which an ongoing degradation is logged again, with a count.
const repeatEvery = time.Minute

// A Log writes one wide line per request: ids and numbers, never a body, a query or a secret. A
// degradation is logged once as a warning and then once a minute with a count. That a route is
// relayed unchanged is logged once per route. Logger should write to an AsyncWriter, as Record is
// called while requests are served.
type Log struct {
	Logger   *slog.Logger
	Requests LogVerbosity // "" means LogAll
	// Lines receives each request's line in one write, in the format of slog's JSON handler but at
	// a fraction of its cost.
	Lines io.Writer

	texts sync.Pool // of *[]byte, each for one line

	noted   sync.Map // routes already logged as relayed unchanged
	mu      sync.Mutex
	ongoing map[degradation]*recurrence
}

// A degradation is a failed stage and the reason.
type degradation struct {
	stage  string
	reason rewrite.Reason
}

// A recurrence counts how often a degradation occurred since it was last logged.
type recurrence struct {
	count int
	timer *time.Timer
}

// Record writes r's line, and logs the degradations of r and a route that is relayed unchanged.
func (l *Log) Record(r *Report) {
	if r.Degraded() {
		l.degraded(degradation{"retrieval", r.Rewrite.Reason})
	}
	if why := r.PlanFailed(); why != "" {
		l.degraded(degradation{"planner", rewrite.Reason(why)})
	}
	if why := r.RerankFailed(); why != "" {
		l.degraded(degradation{"rerank", rewrite.Reason(why)})
	}
	if why := r.GradeFailed(); why != "" {
		l.degraded(degradation{"grade", rewrite.Reason(why)})
	}
	if why := r.StageFailed(); why != "" {
		l.degraded(degradation{"stages", rewrite.Reason(why)})
	}
	if r.Reason == rewrite.ReasonRoute {
		l.note(r.Route)
	}
	if l.Requests.Wants(r) {
		l.writeLine(r)
	}
}

func (l *Log) writeLine(r *Report) {
	text, _ := l.texts.Get().(*[]byte)
	if text == nil {
		text = new([]byte)
	}
	*text = appendLine((*text)[:0], r)
	_, _ = l.Lines.Write(*text) // a failing log cannot be reported anywhere else
	transport.PoisonBuffer(*text)
	l.texts.Put(text)
}

// Wants reports whether a request gets a line.
func (v LogVerbosity) Wants(r *Report) bool {
	switch v {
	case LogNone:
		return false
	case LogErrors:
		return r.Status >= 400 || r.Truncated || r.Client != ClientCompleted
	}
	return true
}

// note logs once per route that it is relayed unchanged.
func (l *Log) note(r route.Kind) {
	if _, said := l.noted.LoadOrStore(r, true); !said {
		l.Logger.Info("a route passes unchanged; sources are added to /chat/completions only (said once)", "route", string(r))
	}
}

// degraded logs d at once if it did not occur within the last minute, and otherwise counts it for
// the next line.
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
	l.Logger.Error("BUG: panic", "panic", panics.Describe(value), "stack", string(stack))
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

// Close logs the remaining counts and stops the timers.
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
