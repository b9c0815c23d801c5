package budget

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Settler takes the settlements of calls that have ended. It does not wait.
type Settler interface {
	Settle(s Settlement)
}

// A MeterObserver hears what becomes of budgets, for metrics. Its calls return at once.
type MeterObserver interface {
	Refused(tenant string, window Window)
	Stepped(rung Rung)
	Seen(tenant string, levels Levels)
	Expired(leases int)
	RolledBack(tenant string)
	LedgerFailed()
	Settled(tenant string, kind Kind, actual Amount)
}

// A Meter reserves for the calls of one server and settles them. It is safe for concurrent
// use.
type Meter struct {
	ledger  Ledger
	renewer Renewer
	settler Settler
	watch   MeterObserver

	// Charges take what calls took for which nothing was reserved; nil: they are in no ledger.
	// It is set before the first call.
	Charges *Charges

	mu   sync.Mutex
	last *Hold // of the list of those that are open
	open int   // how many
}

// NewMeter returns a Meter on a ledger, which settler settles. Of a Reserve that fails the ledger
// must let nothing be held, as Fallback and Memory do. Run renews what is held.
func NewMeter(ledger Ledger, renewer Renewer, settler Settler, watch MeterObserver) *Meter {
	return &Meter{ledger: ledger, renewer: renewer, settler: settler, watch: watch}
}

// meterLease is how long a reservation is held without news of its call, after which its estimate
// is charged; a call that goes on renews it.
const meterLease = 2 * time.Minute

// A MeteredCall is one that is about to be made for a tenant.
type MeteredCall struct {
	Tenant   string
	ID       string // "request:attempt"; unique
	Kind     Kind
	Estimate Amount // the most that it takes
}

// A Hold is a reservation that was granted. Settle ends it; a Hold that nobody settles is
// charged its estimate at the end of its lease, as after a crash.
type Hold struct {
	meter  *Meter
	ticket Ticket
	call   MeteredCall
	looks  int // of renew

	before, after *Hold // in the Meter's list
	settled       bool
}

// Reserve reserves for a call. If there is no room it goes down the ladder: cheaper makes its
// kind and estimate those of the call on a rung, and returns false where the rung changes
// nothing of it. It is not called again after the rung that Reserve returns; that is "" where
// the call has room as it is. The error is a *Refusal, or says that the ledger cannot be reached.
func (m *Meter) Reserve(ctx context.Context, t *Terms, c MeteredCall, cheaper func(Rung, *MeteredCall) bool) (*Hold, Rung, error) {
	r := Reservation{
		Tenant: c.Tenant, ID: c.ID, Kind: c.Kind, Estimate: c.Estimate,
		Limits: t.Limits, Allowance: t.Allowance, Lease: meterLease,
	}
	d, err := m.ask(ctx, r)
	if err != nil || d.Granted {
		return m.hold(d, c), "", err
	}
	for i, rung := range t.Ladder {
		if !helps(d.Window) {
			break // however cheap the call is, it is one more request
		}
		lower := c
		if !cheaper(rung, &lower) || i < len(t.Ladder)-1 && !fits(d.Levels, lower.Estimate) {
			continue
		}
		c = lower
		r.Kind, r.Estimate = c.Kind, c.Estimate
		if d, err = m.ask(ctx, r); err != nil {
			return nil, "", err
		}
		if d.Granted {
			m.watch.Stepped(rung)
			return m.hold(d, c), rung, nil
		}
	}
	m.watch.Refused(c.Tenant, d.Window)
	return nil, RefuseRung, &Refusal{Window: d.Window, Wait: d.Wait, Never: d.Never, Levels: d.Levels}
}

// ask asks the ledger.
func (m *Meter) ask(ctx context.Context, r Reservation) (Decision, error) {
	d, err := m.ledger.Reserve(ctx, r)
	if d.Expired > 0 {
		m.watch.Expired(d.Expired)
	}
	if d.RolledBack {
		m.watch.RolledBack(r.Tenant)
	}
	if err != nil {
		m.watch.LedgerFailed()
		return d, fmt.Errorf("reserve in the ledger: %w", err)
	}
	m.watch.Seen(r.Tenant, d.Levels)
	return d, nil
}

func (m *Meter) hold(d Decision, c MeteredCall) *Hold {
	if !d.Granted {
		return nil
	}
	h := &Hold{meter: m, ticket: d.Ticket, call: c}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.before = m.last; h.before != nil {
		h.before.after = h
	}
	m.last = h
	m.open++
	return h
}

// helps tells whether a call that takes less may have room in a window.
func helps(w Window) bool {
	return w != RequestsPerMinute && w != ParallelRequests
}

// fits tells whether the levels had room for an estimate.
func fits(levels Levels, e Amount) bool {
	for w, takes := range map[Window]int64{
		TokensPerMinute: e.Tokens, TokensPerDay: e.Tokens,
		InjectedPerMinute: e.Injected, InjectedPerDay: e.Injected,
		MoneyPerDay: e.Money, MoneyPerMonth: e.Money,
	} {
		if l := levels[w]; l.Limit > 0 && takes > l.Left {
			return false
		}
	}
	return true
}

// Estimate returns what was reserved.
func (h *Hold) Estimate() Amount { return h.call.Estimate }

// Settle ends the reservation by what the call took. Only the first call counts.
func (h *Hold) Settle(actual Amount) {
	m := h.meter
	if !m.forget(h) {
		return
	}
	m.settler.Settle(Settlement{Ticket: h.ticket, Actual: actual})
	m.watch.Settled(h.call.Tenant, h.call.Kind, actual)
}

// Add charges what a call took for which nothing was reserved, since its tenant has no limits of
// what it takes. It does nothing if m is nil.
func (m *Meter) Add(tenant string, kind Kind, actual Amount) {
	if m == nil || actual == (Amount{}) {
		return
	}
	if m.Charges != nil {
		m.Charges.Add(tenant, kind, actual)
	}
	m.watch.Settled(tenant, kind, actual)
}

// forget takes h out of the list; it returns false if that was done before.
func (m *Meter) forget(h *Hold) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.settled {
		return false
	}
	h.settled = true
	m.open--
	if h.before != nil {
		h.before.after = h.after
	}
	if h.after != nil {
		h.after.before = h.before
	} else {
		m.last = h.before
	}
	h.before, h.after = nil, nil // so that nothing keeps what was settled
	return true
}

// Open returns how many reservations of this process are not settled.
func (m *Meter) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Run renews what is held, until the context ends.
func (m *Meter) Run(ctx context.Context) {
	tick := time.NewTicker(meterLease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.renew(ctx)
		}
	}
}

// renew prolongs every second time that it looks what is held, which has half of its lease
// left then at least. One that cannot be renewed is charged its estimate, which is what is
// known of it.
func (m *Meter) renew(ctx context.Context) {
	var old []Ticket
	m.mu.Lock()
	for h := m.last; h != nil; h = h.before {
		if h.looks++; h.looks%2 == 0 {
			old = append(old, h.ticket)
		}
	}
	m.mu.Unlock()
	for _, t := range old {
		if _, err := m.renewer.Renew(ctx, t, meterLease); err != nil {
			m.watch.LedgerFailed()
		}
	}
}
