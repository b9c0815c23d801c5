package budget

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Memory is a Ledger, Renewer and Reporter for one process. It keeps its counts in memory and,
// if it was opened by OpenFile, in files.
//
// Days and months follow the system's clock. If the clock is set back, buckets continue to drain,
// and leases expire as if it had not been.
type Memory struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	sweepAt  int      // number of accounts at which idle ones are dropped
	journal  *journal // nil without a file
}

// NewMemory returns a ledger without persistence. now is the clock, time.Now if nil.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, accounts: map[string]*account{}, sweepAt: minSweep}
}

// minSweep is the number of accounts at which idle ones are first looked for.
const minSweep = 1024

// Reserve implements Ledger. With files, it also fails if a write fails; nothing is held then.
func (m *Memory) Reserve(_ context.Context, r Reservation) (Decision, error) {
	if err := r.Check(); err != nil {
		return Decision{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMilli()
	a := m.account(r.Tenant, now)
	if err := m.checkpoint(r.Tenant, a); err != nil {
		return Decision{}, err
	}
	d, changed, err := a.reserve(now, r)
	if changed && m.journal != nil {
		if failed := m.journal.write(reserveRecord(m.journal.buf, now, r)); failed != nil {
			if d.Granted {
				a.settleID(r.ID, Amount{})
			}
			a.segment = 0 // force a new snapshot, since the records do not explain this state
			return Decision{}, failed
		}
	}
	return d, err
}

// Settle implements Ledger.
func (m *Memory) Settle(_ context.Context, settlements ...Settlement) ([]Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outcomes := make([]Outcome, 0, len(settlements))
	for _, s := range settlements {
		outcome, err := m.settle(s)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// SettleNow settles a single settlement.
func (m *Memory) SettleNow(s Settlement) (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settle(s)
}

// settle records a settlement before it takes effect, so that one that was not recorded can be
// repeated.
func (m *Memory) settle(s Settlement) (Outcome, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	a := m.account(s.Tenant, m.now().UnixMilli())
	if _, known := a.closed[s.ID]; !known && m.journal != nil {
		if err := m.checkpoint(s.Tenant, a); err != nil {
			return "", err
		}
		if err := m.journal.write(settleRecord(m.journal.buf, s)); err != nil {
			return "", err
		}
	}
	return a.settleID(s.ID, s.Actual), nil
}

// Renew implements Renewer.
func (m *Memory) Renew(_ context.Context, t Ticket, lease time.Duration) (bool, error) {
	if lease < 0 || lease > MaxLease {
		return false, fmt.Errorf("%w: lease of %v, want at most %v", ErrInvalid, lease, MaxLease)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.accounts[t.Tenant]
	if a == nil || a.Leases[t.ID] == nil {
		return false, nil
	}
	now := m.now().UnixMilli()
	if m.journal != nil {
		if err := m.checkpoint(t.Tenant, a); err != nil {
			return false, err
		}
		if err := m.journal.write(renewRecord(m.journal.buf, now, t, lease)); err != nil {
			return false, err
		}
	}
	return a.renew(now, t.ID, now+lease.Milliseconds()), nil
}

// Usage implements Reporter.
func (m *Memory) Usage(_ context.Context, tenant string, limits Limits) (Usage, error) {
	if err := limits.Check(); err != nil {
		return Usage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, a := m.now().UnixMilli(), m.accounts[tenant]
	if a == nil {
		a = &account{} // not stored
	} else if a.isDue(now) { // otherwise nothing is written, so that it works on a full disk
		if err := m.checkpoint(tenant, a); err != nil {
			return Usage{}, err
		}
	}
	u, changed := a.usage(now, limits)
	if changed && m.journal != nil {
		if err := m.journal.write(usageRecord(m.journal.buf, now, tenant)); err != nil {
			a.segment = 0
			return Usage{}, err
		}
	}
	return u, nil
}

// account returns the account of a tenant, which it creates if necessary.
func (m *Memory) account(tenant string, now int64) *account {
	a := m.accounts[tenant]
	if a != nil {
		return a
	}
	if len(m.accounts) >= m.sweepAt {
		for name, a := range m.accounts {
			if a.isIdle(now) {
				delete(m.accounts, name)
			}
		}
		m.sweepAt = max(minSweep, 2*len(m.accounts))
	}
	a = &account{}
	m.accounts[tenant] = a
	return a
}

// isIdle reports whether the account is equivalent to an empty one.
func (a *account) isIdle(now int64) bool {
	month := int64(monthOf(now))
	return len(a.Leases) == 0 && now-a.At > 2*dayMillis && a.Months[0].Index < month && a.Months[1].Index < month
}

// isDue reports whether leases have expired, or the clock was set back, so that usage changes the
// account.
func (a *account) isDue(now int64) bool {
	return now < a.At || len(a.queue) > 0 && a.queue[0].Deadline <= now
}

// usage returns the usage after charging expired leases.
func (a *account) usage(now int64, limits Limits) (u Usage, changed bool) {
	before, run := a.At, a.Run
	changed = a.pass(now)
	for n := maxExpired; n == maxExpired; u.Expired += n {
		n = a.expire(now)
	}
	changed = changed || u.Expired > 0
	u.Levels, u.Parallel = LevelsOf(limits, a.state(limits)), a.Slots
	u.Day = usageOf(find(&a.Days, int64(dayOf(now))))
	u.Day.Start, u.Day.End = dayOf(now).span()
	u.Month = usageOf(find(&a.Months, int64(monthOf(now))))
	u.Month.Start, u.Month.End = monthOf(now).span()
	if !changed {
		a.At, a.Run = before, run
	}
	return u, changed
}

func usageOf(p *period) Period {
	u := Period{Kinds: map[Kind]Amount{}}
	if p == nil {
		return u
	}
	u.Spent, u.Held = p.Spent.amount(), p.Held.amount()
	for i, spent := range p.Kinds {
		if spent != (units{}) {
			u.Kinds[kindNames[i]] = spent.amount()
		}
	}
	return u
}

// restore sets the unexported fields of an account that was decoded.
func (a *account) restore() {
	a.queue = a.queue[:0]
	for _, l := range a.Leases {
		l.position = len(a.queue)
		a.queue = append(a.queue, l)
	}
	heap.Init(&a.queue)
	a.closed = map[string]bool{}
	a.Closed = a.Closed[max(0, len(a.Closed)-maxClosed):]
	for _, c := range a.Closed {
		a.closed[c.ID] = c.Expired
	}
}

// chargeAll charges the estimates of all leases: nobody will settle them.
func (a *account) chargeAll() {
	for _, l := range slices.Clone(a.queue) {
		a.settle(l, l.Estimate, true)
	}
}

// checkpoint makes sure that the journal's current segment has a snapshot of the account before a
// change is recorded there.
func (m *Memory) checkpoint(tenant string, a *account) error {
	if m.journal == nil {
		return nil
	}
	return m.journal.checkpoint(tenant, a)
}

// probe finds out whether the journal can be written.
func (m *Memory) probe() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.journal.probe()
}

// Limits of the work and the memory per tenant.
const (
	maxExpired = 100 // leases that one call charges; the next call continues
	maxClosed  = 256 // settled IDs that are remembered
	maxDebt    = 1   // most that a bucket exceeds its limit by, in multiples of the limit
)

// An account is the ledger of one tenant as a pure state machine: the same calls at the same times
// lead to the same state. The scripts of the Redis ledger do the same, step by step; a test
// compares them. Fields are exported only for encoding.
//
// A refused call changes nothing, unless leases expired or the clock was set back.
type account struct {
	At      int64 // time of the last change, in milliseconds since 1970
	Run     int64 // milliseconds between changes in total, ignoring backward steps of the clock
	Buckets [3]bucket
	Slots   int64 // open leases of requests
	Days    [2]period
	Months  [2]period
	Leases  map[string]*lease
	Closed  []closed // settled IDs, oldest first; only the last maxClosed count

	queue   leaseQueue
	closed  map[string]bool // IDs of Closed, and whether their leases had expired
	segment int64           // of the journal, that holds the complete account
	spare   *lease          // a settled lease, for reuse
	day     day             // the last day whose month was computed
	month   month
}

// A bucket is a window per minute: it drains by its limit each minute. Granting if fill and
// estimate stay within the limit is GCRA with a burst of one minute's limit; unlike a time of
// arrival, the fill stays exact when limits change.
type bucket struct {
	Fill  int64 // in units × perMinute
	Since int64 // the Run up to which it was drained
}

// A period is a day or month, numbered by Index.
type period struct {
	Index       int64
	Spent, Held units
	Kinds       [len(kindNames)]units // by index in kindNames
}

// A lease is an open reservation.
type lease struct {
	ID         string
	Deadline   int64
	Run        int64 // of the account, when the lease was granted
	Day, Month int64 // periods in which it is settled, whenever that happens
	Estimate   units
	PerMinute  [3]int64 // limits of the buckets when it was granted
	Kind       int

	position int // in the queue
}

type closed struct {
	ID      string
	Expired bool
}

// pass advances the account to now. If the clock was set back, the deadlines of leases move back
// with it, so that no lease lasts longer.
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

// expire charges the estimates of expired leases, oldest first.
func (a *account) expire(now int64) (n int) {
	for n < maxExpired && len(a.queue) > 0 && a.queue[0].Deadline <= now {
		l := a.queue[0]
		a.settle(l, l.Estimate, true)
		n++
	}
	return n
}

// reserve decides about r, which has been checked. changed reports whether the account changed, in
// which case the call must be recorded.
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

// holds reports whether u can be held without overflowing the counters.
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

// monthOf is a cached form of the function monthOf, which is slow compared to the rest of a call.
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

// drained returns the current fill of the bucket. A bucket never holds more than its limit and the
// debt, even after the limit was lowered, so that two minutes empty it.
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

// settle ends a lease with the actual amount.
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

// correct replaces an estimate by the actual amount. What drained since the lease was granted is
// attributed to the lease first: it is not given back, because somebody may have used that room
// already.
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
		if n == 2*maxClosed { // only occasionally, as it is slow
			a.Closed = slices.Delete(a.Closed, 0, n-maxClosed)
		}
	}
}

// settleID settles the lease with an ID, if it is open.
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

// renew extends a lease to at least deadline.
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

// slots returns the number of parallel requests that the lease counts for.
func (l *lease) slots() int64 { return min(l.Estimate[requests], 1) }

// find returns the period with an index, or nil.
func find(kept *[2]period, index int64) *period {
	for i := range kept {
		if kept[i].Index == index {
			return &kept[i]
		}
	}
	return nil
}

// ensure returns the period with an index. If there is none, it replaces the older of the two by
// an empty one: the other one can still be settled into.
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

// Push and Pop implement heap.Interface.
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
