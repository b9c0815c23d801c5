package proxy

import (
	"sync/atomic"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// An account owns a request's Report and the slots and memory that the request holds, from its
// first byte until it is recorded. It ends the request.
type account struct {
	server   *Server
	report   report.Report
	calls    [1]report.Call  // backing array of report.Calls in the usual case
	readTook time.Duration   // from report.Time until the request was read, including its body if that is buffered
	held     int             // bytes taken from server.memory for the body
	shadow   *rewrite.Result // the result of shadow work, when it is done
	refs     atomic.Int32    // references of the answer and shadow work; the last one to end records the Report
	settlement
	reading
	kept
}

// A settlement holds what charging a request's calls takes.
type settlement struct {
	terms    *budget.Terms       // of the tenant; nil until it is known
	spending *spending           // the budget reservation; nil if nothing is limited
	model    string              // model that the chat names
	tier     string              // service_tier of the request
	counter  answer.UsageCounter // counts the text of a metered answer without usage; nil: not counted
	before   report.Rounds       // usage of the rounds before the last one
}

// A reading holds what is read from an answer while it is relayed.
type reading struct {
	streaming bool                // the answer is a stream
	switched  bool                // the connection switches to another protocol when the handler has returned
	reader    *answer.UsageReader // reads the usage of the answer; nil if the answer has none
	unread    bool                // do not use reader: it panicked, or there is no time for it
	text      *answer.AnswerText  // reads the text of the answer; nil if it is not kept
	said      *answer.Text        // the answer that Sidenote wrote itself, if it is kept
	checker   *citationStage      // checks the answer's citations; nil if they are not checked
	sample    *sample             // the request, for learn; nil if it is not sampled
}

// A kept is what an exchange keeps from one request to the next: method values, so that they are
// allocated once, and a buffer.
type kept struct {
	whenDone      func(transport.Outcome) // exchange.done
	panicked      panics.Handler          // account.Panicked
	onChunk       func(piece []byte)      // account.tap
	statusHeaders func([]byte) []byte     // account.tell
	stageBody     []byte                  // buffer for the requests of stages
}

// begin initialises a for a request and counts it as open.
func (a *account) begin(s *Server, now time.Time) {
	a.server = s
	r := &a.report
	r.ID, r.Time, r.Outcome, r.Client = report.NewID(now), now, report.Relayed, report.ClientCompleted
	r.Calls = a.calls[:0]
	a.refs.Store(1)
	s.metrics.Begin()
	s.openRequests.Add(1)
	s.work.Add(1)
}

// Panicked reports a panic that happened in this request. It implements RoundsHost.
func (a *account) Panicked(value any, stack []byte) { a.server.bug(a.report.ID, value, stack) }

// beginStream marks the answer as a stream and counts it.
func (a *account) beginStream() {
	a.streaming = true
	a.server.metrics.BeginStream()
}

// Take implements transport.BodyMemory. giveBack releases all bytes that Take reserved.
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

// settle records how the answer ended.
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

// finish counts the request as ended when its answer is over. Its slot is free before its Report
// is recorded.
func (a *account) finish() {
	a.report.Total = time.Since(a.report.Time)
	if a.streaming {
		a.server.metrics.EndStream()
	}
	a.server.metrics.End()
	a.server.openRequests.Add(-1)
}

// record records the Report. It recovers panics of recorders, because no caller would; only the
// record is lost then.
func (a *account) record() {
	defer panics.Recover(a.panicked, nil)
	if a.shadow != nil {
		a.report.Rewrite = *a.shadow
		if a.report.Reason == "" {
			a.report.Reason = a.shadow.Reason
		}
	}
	a.checker.Tell()
	a.charge()
	a.report.AddRounds(&a.before)
	a.keepAnswer()
	a.server.records.Record(&a.report)
}

// charge charges the last call: it settles the reservation or, without one, adds the usage.
func (a *account) charge() {
	r := &a.report
	if a.spending != nil {
		a.spending.Settle(r)
		a.spending = nil
		return
	}
	if a.server.budgets == nil || a.terms == nil || a.terms.Limited() {
		return // the request was refused
	}
	model, kind := a.model, KindOf(r)
	if stage := r.Stages.Last(); stage != nil && kind == budget.Stage {
		model = stage.Model
	}
	r.Budget.Charged = Taken(a.terms, r, model, a.tier)
	if a.before.Counted() {
		r.Budget.Charged.Requests = 0
	}
	a.server.budgets.Add(r.Tenant, kind, r.Budget.Charged)
}

// ours lists Sidenote's own header lines, which are removed from upstream answers. It is
// never changed.
var ours = []transport.Header{{Name: report.HeaderID}, {Name: report.HeaderStatus}, {Name: report.HeaderSources}}

// tell appends Sidenote's header lines to the head of an upstream's answer. On a generation route
// they hold the request's ID, status and sources; if the upstream refused the request, only the
// ID, as the caller may not be allowed to know what was found. On other routes there are none.
func (a *account) tell(head []byte) []byte {
	if a.report.Outcome == report.Relayed {
		return head
	}
	head = append(append(head, "\r\n"+report.HeaderID+": "...), a.report.ID...)
	if a.report.UpstreamStatus()/100 != 2 {
		return head
	}
	head = report.AppendStatus(append(head, "\r\n"+report.HeaderStatus+": "...), &a.report)
	named := append(head, "\r\n"+report.HeaderSources+": "...)
	if all := report.AppendAllSources(named, &a.report); len(all) > len(named) {
		return all
	}
	return head
}
