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
