package proxy

import (
	"sync/atomic"
	"time"

	"sidenote/proxy/answertext"
	"sidenote/proxy/cited"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/samples"
	"sidenote/proxy/spend"
	"sidenote/proxy/transport"
	"sidenote/proxy/usage"
	"sidenote/rewrite"
)

// An account is the sole owner of a request's Report, of the slots and the memory that it
// takes, and of its end.
type account struct {
	server    *Server
	report    report.Report
	readTook  time.Duration      // from report.Time until the request was read, with its body if that is read whole
	streaming bool               // the answer is a stream
	switched  bool               // the answer goes on as another protocol when the handler has returned
	held      int                // bytes taken from server.memory for the body
	reader    *usage.Reader      // reads what the answer used; nil if the answer does not tell it
	text      *answertext.Reader // reads what the answer says; nil if nobody keeps it
	said      *answertext.Answer // what Sidenote answered itself, if somebody keeps it
	counter   usage.Counter      // counts the text of a metered answer that does not tell its usage; nil: it is not counted
	unread    bool               // reader is not read: it has panicked, or there is no time for it
	spending  *spend.Spending    // what was reserved of the tenant's budget; nil if nothing is limited
	checker   *cited.Checker     // checks the answer's citations; nil if nothing does
	sample    *samples.Sample    // the request, for learn; nil if nothing is learnt from it
	shadow    *rewrite.Result    // the result of shadow work, when it is done
	before    report.Rounds      // what the rounds before the last one used
	holders   atomic.Int32       // the answer, and shadow work if any: the last one records the Report

	stageBody []byte                  // the memory for requests of stages, used again
	headers   [3]transport.Header     // the memory for the result of lines
	calls     [1]report.Call          // the memory for the usual list of calls
	whenDone  func(transport.Outcome) // the method value exchange.done, allocated once
	panicked  panics.Handler          // the method value bug, allocated once
	tapped    func(piece []byte)      // the method value tap, allocated once
}

// begin counts a request in.
func (a *account) begin(s *Server, now time.Time) {
	a.server = s
	r := &a.report
	r.ID, r.Time, r.Outcome, r.Client = report.NewID(now), now, report.Relayed, report.ClientCompleted
	r.Calls = a.calls[:0]
	a.holders.Store(1)
	s.metrics.Begin()
	s.openRequests.Add(1)
	s.work.Add(1)
}

// bug reports a panic that this request met.
func (a *account) bug(value any, stack []byte) { a.server.bug(a.report.ID, value, stack) }

// beginStream counts a stream in.
func (a *account) beginStream() {
	a.streaming = true
	a.server.metrics.BeginStream()
}

// Take implements transport.Room. giveBack gives back the bytes that a takes.
func (a *account) Take(n int) bool {
	if !a.server.memory.Take(n) {
		return false
	}
	a.held += n
	return true
}

func (a *account) giveBack() {
	if a.held > 0 {
		a.server.memory.Give(a.held)
		a.held = 0
	}
}

// settle notes how the answer has ended.
func (a *account) settle(o transport.Outcome) {
	switch transport.ClassOf(o.Err) {
	case "":
	case transport.ClientGone, transport.ClientSlow, transport.ClientBody, transport.ClientLate:
		a.report.Client = report.ClientGoneStreaming
	case transport.Closed:
		a.report.Client, a.report.Reason = report.ClientCutShutdown, report.ReasonShutdown
	case transport.NoRoom:
		a.report.Outcome, a.report.Reason = report.Failed, rewrite.ReasonOverload
	case transport.Internal:
		a.report.Outcome, a.report.Reason = report.Failed, report.ReasonInternal
	default:
		a.report.Client, a.report.Truncated = report.ClientCutUpstream, true
	}
}

// finish counts the request out: its answer is over, and there is room for another one
// before its Report is seen.
func (a *account) finish() {
	a.report.Total = time.Since(a.report.Time)
	if a.streaming {
		a.server.metrics.EndStream()
	}
	a.server.metrics.End()
	a.server.openRequests.Add(-1)
}

// record records the Report. No caller would recover a panic, so a recorder that panics is
// stopped here: it costs its record and nothing else.
func (a *account) record() {
	defer panics.Recover(a.panicked, nil)
	if a.shadow != nil {
		a.report.Rewrite = *a.shadow
		if a.report.Reason == "" {
			a.report.Reason = a.shadow.Reason
		}
	}
	a.checker.Tell()
	if a.spending != nil {
		a.spending.Settle(&a.report)
	}
	a.report.AddRounds(&a.before)
	a.keepAnswer()
	a.server.records.Record(&a.report)
}

// lines returns Sidenote's header lines for an upstream's answer. On a generation
// route they say what became of the request; if the upstream refused it they hold the
// id alone, as the caller may not be allowed to know what was found. On other routes
// there are none. The upstream's own lines of these names are always removed.
func (a *account) lines() []transport.Header {
	a.headers = [...]transport.Header{{Name: report.HeaderID}, {Name: report.HeaderStatus}, {Name: report.HeaderSources}}
	h := a.headers[:]
	if a.report.Outcome == report.Relayed {
		return h
	}
	h[0].Value = a.report.ID
	if a.report.UpstreamStatus()/100 != 2 {
		return h
	}
	values := report.AppendStatus(make([]byte, 0, 2048), &a.report)
	status := len(values)
	values = report.AppendAllSources(values, &a.report)
	both := string(values)
	h[1].Value, h[2].Value = both[:status], both[status:]
	return h
}
