package explain

import (
	"slices"
	"time"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A Summary describes a finished request in a list.
type Summary struct {
	Number   uint64 // of the request in the ring; see Range
	ID       string
	Time     time.Time // when the request header had been read
	Tenant   string    // "" if the caller was refused
	Model    string    // row of the model table
	Outcome  rewrite.Outcome
	Reason   rewrite.Reason
	Rung     string        // of the ladder; "" if the request was not reduced
	Status   int           // of the answer; 499 if the client left before it
	Sources  int           // in the prompt, and in tool results
	Tokens   int           // added to the prompt, and in tool results
	Overhead time.Duration // from request read to request handed to the upstream
	Total    time.Duration // from Time to the end of the answer
	Line     string        // Sidenote-Status of the answer, as known at its end
}

// maxSubscribers limits the concurrent subscribers: each costs every request a few nanoseconds.
const maxSubscribers = 16

// Range returns the numbers of the requests that are kept: first <= n < end. Requests are numbered
// in the order in which they ended.
func (r *Ring) Range() (first, end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recorded - uint64(r.have()), r.recorded
}

// Summary returns the summary of the request with a number; false if it is not kept. It blocks
// recording for about a microsecond.
func (r *Ring) Summary(number uint64) (Summary, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number >= r.recorded || number < r.recorded-uint64(r.have()) {
		return Summary{}, false
	}
	of := r.at(number)
	s := Summary{
		Number: number, ID: of.ID, Time: of.Time, Tenant: of.Tenant, Model: of.Model(), Outcome: of.Outcome, Reason: of.Reason, Rung: of.Budget.Rung, Status: of.Status,
		Sources: of.Sources(), Tokens: of.Rewrite.Ledger.Used, Overhead: of.Overhead, Total: of.Total, Line: of.line(),
	}
	if t := of.Tools; t != nil {
		s.Sources, s.Tokens = s.Sources+len(t.Sources), s.Tokens+t.Tokens
	}
	return s, true
}

// line returns the Sidenote-Status.
func (r *entry) line() string { return string(report.AppendStatus(nil, &r.Report)) }

// Kept reports which of the requests with these ids are kept. A nil Ring keeps none.
func (r *Ring) Kept(ids []string) map[string]bool {
	kept := make(map[string]bool, len(ids))
	for _, id := range ids {
		kept[id] = false
	}
	if r == nil {
		return kept
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.have() {
		if _, asked := kept[r.reports[i].ID]; asked {
			kept[r.reports[i].ID] = true
		}
	}
	return kept
}

// Subscribe returns a channel that receives a value if requests were recorded since the last
// receive. Requests are not queued, so that a slow subscriber costs no memory: it finds by Range
// what it missed. ok is false if there are too many subscribers; otherwise stop must be called.
func (r *Ring) Subscribe() (kept <-chan struct{}, stop func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == maxSubscribers {
		return nil, nil, false
	}
	c := make(chan struct{}, 1)
	r.waiting = append(r.waiting, c)
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting = slices.DeleteFunc(r.waiting, func(other chan struct{}) bool { return other == c })
	}, true
}

// tell wakes the subscribers. The caller holds mu.
func (r *Ring) tell() {
	for _, c := range r.waiting {
		select {
		case c <- struct{}{}:
		default: // the last value was not received yet
		}
	}
}
