package budget

import (
	"container/heap"
	"slices"
)

// Bounds of the work and the memory of a tenant.
const (
	maxExpired = 100 // leases that one call charges; the next call goes on
	maxClosed  = 256 // settled IDs that are remembered
	maxDebt    = 1   // of a bucket, in limits, beyond the limit
)

// An account is the ledger of one tenant as a pure state machine: the same calls at the
// same times lead to the same state. The scripts of the Redis ledger do the same, step
// by step; a test compares them. Fields are exported for encoding only.
//
// A call that is refused changes nothing, unless leases ended or the clock was set back.
type account struct {
	At      int64 // time of the last change, in milliseconds since 1970
	Run     int64 // milliseconds that passed between changes, without backward steps of the clock
	Buckets [3]bucket
	Slots   int64 // open leases of requests
	Days    [2]period
	Months  [2]period
	Leases  map[string]*lease
	Closed  []closed // settled IDs, oldest first; the last maxClosed of them count

	queue   leaseQueue
	closed  map[string]bool // IDs of Closed, and whether their leases had ended
	segment int64           // of the journal, that holds all of the account
	spare   *lease          // one that was settled, for the next
	day     day             // the last one whose month was asked for
	month   month
}

// A bucket is a window by the minute: a bucket that drains by its limit each minute.
// Granting when the fill and the estimate stay within the limit is GCRA with a burst
// of one minute's limit; unlike a time of arrival the fill stays exact when limits
// change.
type bucket struct {
	Fill  int64 // in units × perMinute
	Since int64 // the Run up to which it has drained
}

// A period is a day or month; Index is its number.
type period struct {
	Index       int64
	Spent, Held units
	Kinds       [len(kindNames)]units // by position in kindNames
}

// A lease is an open reservation.
type lease struct {
	ID         string
	Deadline   int64
	Run        int64 // of the account, when it was granted
	Day, Month int64 // in which it is settled, whenever that is
	Estimate   units
	PerMinute  [3]int64 // the limits of the buckets, when it was granted
	Kind       int

	position int // in the queue
}

type closed struct {
	ID      string
	Expired bool
}

// pass lets time pass to now. The clock of a lease is set back with the system's, so
// that no lease lasts longer because of it.
func (a *account) pass(now int64) (steppedBack bool) {
	if a.At == 0 || now >= a.At {
		if a.At != 0 {
			a.Run += now - a.At
		}
		a.At = now
		return false
	}
	for _, l := range a.Leases {
		l.Deadline += now - a.At
	}
	a.At = now
	return true
}

// expire charges the estimates of leases that have ended, oldest first.
func (a *account) expire(now int64) (n int) {
	for n < maxExpired && len(a.queue) > 0 && a.queue[0].Deadline <= now {
		l := a.queue[0]
		a.settle(l, l.Estimate, true)
		n++
	}
	return n
}

// reserve decides about r, which has been checked. Changed tells whether the account
// changed, in which case the call must be recorded.
func (a *account) reserve(now int64, r Reservation) (d Decision, changed bool, err error) {
	before, run := a.At, a.Run
	changed = a.pass(now)
	expired := a.expire(now)
	changed = changed || expired > 0
	defer func() {
		d.Expired = expired
		if !changed {
			a.At, a.Run = before, run
		}
	}()
	if a.Leases[r.ID] != nil {
		return Decision{Ticket: r.Ticket(), Granted: true, Levels: LevelsOf(r.Limits, a.state(r.Limits))}, changed, nil
	}
	if _, known := a.closed[r.ID]; known {
		return Decision{}, changed, ErrClosed
	}
	d, refused := Refuse(r, a.state(r.Limits))
	if refused {
		return d, changed, nil
	}
	if !a.holds(r.Estimate.units()) {
		return Decision{}, changed, ErrInvalid
	}
	changed = true
	a.grant(now, r)
	d.Granted, d.Levels = true, LevelsOf(r.Limits, a.state(r.Limits))
	return d, changed, nil
}

// holds tells whether the counters of what is held have room for so much.
func (a *account) holds(u units) bool {
	for _, p := range []*period{find(&a.Days, int64(dayOf(a.At))), find(&a.Months, a.monthOf(a.At))} {
		for i, n := range u {
			if p != nil && p.Held[i]+n > MaxCount {
				return false
			}
		}
	}
	return true
}

// monthOf is the function monthOf, which takes longer than the rest of a call, once a day.
func (a *account) monthOf(now int64) int64 {
	if d := dayOf(now); d != a.day || a.month == 0 {
		a.day, a.month = d, monthOf(now)
	}
	return int64(a.month)
}

// state returns the state at the time of the last pass.
func (a *account) state(limits Limits) State {
	s := State{Now: a.At, Parallel: a.Slots}
	for i := range a.Buckets {
		if limits[i] > 0 {
			s.Fill[i] = a.Buckets[i].drained(a.Run, limits[i])
		}
	}
	if p := find(&a.Days, int64(dayOf(a.At))); p != nil {
		s.DaySpent, s.DayHeld = p.Spent.amount(), p.Held.amount()
	}
	if p := find(&a.Months, a.monthOf(a.At)); p != nil {
		s.MonthSpent, s.MonthHeld = p.Spent.amount(), p.Held.amount()
	}
	return s
}

// drained returns what the bucket holds now. A bucket never holds more than its limit
// and the debt, also after the limit was lowered, so that two minutes empty it.
func (b bucket) drained(run, limit int64) int64 {
	most := (1 + maxDebt) * limit * perMinute
	passed := min(run-b.Since, (1+maxDebt)*perMinute)
	return max(0, min(b.Fill, most)-limit*passed)
}

func (a *account) grant(now int64, r Reservation) {
	l := a.spare
	if a.spare = nil; l == nil {
		l = new(lease)
	}
	*l = lease{
		ID: r.ID, Deadline: now + r.Lease.Milliseconds(), Run: a.Run,
		Day: int64(dayOf(now)), Month: a.monthOf(now),
		Estimate: r.Estimate.units(), Kind: slices.Index(kindNames[:], r.Kind),
	}
	for i := range a.Buckets {
		if limit := r.Limits[i]; limit > 0 {
			b := &a.Buckets[i]
			b.Fill = b.drained(a.Run, limit) + l.Estimate[i]*perMinute
			b.Since = a.Run
			l.PerMinute[i] = limit
		}
	}
	for i, n := range l.Estimate {
		ensure(&a.Days, l.Day).Held[i] += n
		ensure(&a.Months, l.Month).Held[i] += n
	}
	a.Slots += l.slots()
	if a.Leases == nil {
		a.Leases = map[string]*lease{}
	}
	a.Leases[l.ID] = l
	heap.Push(&a.queue, l)
}

// settle ends a lease by what was really taken.
func (a *account) settle(l *lease, actual units, expired bool) {
	for i := range a.Buckets {
		if l.PerMinute[i] > 0 {
			a.Buckets[i].correct(l, i, actual[i])
		}
	}
	for _, p := range []*period{find(&a.Days, l.Day), find(&a.Months, l.Month)} {
		if p == nil {
			continue // too long ago
		}
		for i, n := range actual {
			p.Held[i] = max(0, p.Held[i]-l.Estimate[i])
			p.Spent[i] = min(MaxCount, p.Spent[i]+n)
			p.Kinds[l.Kind][i] = min(MaxCount, p.Kinds[l.Kind][i]+n)
		}
	}
	a.Slots -= l.slots()
	delete(a.Leases, l.ID)
	heap.Remove(&a.queue, l.position)
	a.close(l.ID, expired)
	a.spare = l
}

// correct replaces an estimate by the true amount. What has drained since the lease was
// granted is taken to be the lease's own part first: it is not given back, because
// somebody may have used that room already.
func (b *bucket) correct(l *lease, i int, actual int64) {
	limit, estimate := l.PerMinute[i], l.Estimate[i]
	if actual >= estimate {
		most := (1 + maxDebt) * limit * perMinute
		more := min(actual-estimate, (1+maxDebt)*limit) * perMinute
		b.Fill = max(b.Fill, min(b.Fill+more, most))
		return
	}
	passed := min(b.Since-l.Run, perMinute)
	b.Fill -= min(b.Fill, max(0, (estimate-actual)*perMinute-limit*passed))
}

// close remembers a settled ID and forgets the oldest one.
func (a *account) close(id string, expired bool) {
	if a.closed == nil {
		a.closed = map[string]bool{}
	}
	a.Closed = append(a.Closed, closed{id, expired})
	a.closed[id] = expired
	if n := len(a.Closed); n > maxClosed {
		delete(a.closed, a.Closed[n-1-maxClosed].ID)
		if n == 2*maxClosed { // now and then, as it takes long
			a.Closed = slices.Delete(a.Closed, 0, n-maxClosed)
		}
	}
}

// settleID settles the lease of an ID, if it is open.
func (a *account) settleID(id string, actual Amount) Outcome {
	if l := a.Leases[id]; l != nil {
		a.settle(l, actual.units(), false)
		return Settled
	}
	switch expired, known := a.closed[id]; {
	case !known:
		a.close(id, false)
		return Unknown
	case expired:
		return Expired
	}
	return Repeated
}

// renew lets a lease end at that time or later.
func (a *account) renew(now int64, id string, deadline int64) (open bool) {
	l := a.Leases[id]
	if l == nil {
		return false
	}
	a.pass(now)
	l.Deadline = max(l.Deadline, deadline)
	heap.Fix(&a.queue, l.position)
	return true
}

// slots returns how many parallel requests the lease is.
func (l *lease) slots() int64 { return min(l.Estimate[requests], 1) }

// find returns a period; nil if it is not kept.
func find(kept *[2]period, index int64) *period {
	for i := range kept {
		if kept[i].Index == index {
			return &kept[i]
		}
	}
	return nil
}

// ensure returns a period. If it is not kept it begins empty, in place of the older one
// of those that are kept: the last one is still settled into.
func ensure(kept *[2]period, index int64) *period {
	if p := find(kept, index); p != nil {
		return p
	}
	p := &kept[0]
	if kept[1].Index < p.Index {
		p = &kept[1]
	}
	*p = period{Index: index}
	return p
}

// A leaseQueue is a heap of leases by deadline, then ID.
type leaseQueue []*lease

func (q leaseQueue) Len() int { return len(q) }
func (q leaseQueue) Less(i, j int) bool {
	if q[i].Deadline != q[j].Deadline {
		return q[i].Deadline < q[j].Deadline
	}
	return q[i].ID < q[j].ID
}

func (q leaseQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].position, q[j].position = i, j
}

// Push and Pop are for package heap.
func (q *leaseQueue) Push(x any) {
	l := x.(*lease)
	l.position = len(*q)
	*q = append(*q, l)
}

// Pop removes the last lease.
func (q *leaseQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	*q = slices.Delete(*q, last, last+1)
	return l
}
