package explain

import (
	"slices"
	"time"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A Summary is what a list shows of a request that has ended.
type Summary struct {
	Number   uint64 // of the request among those of the ring, see Range
	ID       string
	Time     time.Time // when the head of the request had been read
	Tenant   string    // "" if the caller was refused
	Model    string    // row of the model table
	Outcome  rewrite.Outcome
	Reason   rewrite.Reason
	Rung     string        // of the ladder; "" if the request had room in its tenant's limits as it was
	Status   int           // of the answer; 499: the client left before it
	Sources  int           // in the prompt, and those that results of tools gave
	Tokens   int           // that the prompt grew by, and those of results of tools
	Overhead time.Duration // from request read to request handed to the upstream
	Total    time.Duration // from Time to the end of the answer
	Line     string        // the Sidenote-Status of the answer, with what was known at its end
}

// maxSubscribers is how many may wait for requests at a time: each costs every request a
// few nanoseconds.
const maxSubscribers = 16

// Range returns the numbers of the requests that are kept: from first on, without end. They
// are counted in the order in which the requests ended.
func (r *Ring) Range() (first, end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recorded - uint64(r.have()), r.recorded
}

// Summary returns that of the request with a number, unless it is not kept any more, or not
// yet. Requests that end meanwhile wait for a microsecond.
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

// Kept tells which of the requests with these ids are kept; of a nil Ring none are.
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

// Subscribe returns a channel that gets a value when requests were kept since it was last
// read. Nothing is kept for a subscriber, so that one who reads slowly costs no memory: it
// finds by Range what it missed. ok is false if there are too many subscribers; otherwise
// stop must be called.
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

// tell wakes those who wait. The caller holds mu.
func (r *Ring) tell() {
	for _, c := range r.waiting {
		select {
		case c <- struct{}{}:
		default: // it has not read the last one yet
		}
	}
}
