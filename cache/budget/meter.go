package budget

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// A Settler accepts the settlements of finished calls. Settle does not block.
type Settler interface {
	Settle(s Settlement)
}

// A MeterObserver receives events about budgets, for metrics. Its methods must not block.
type MeterObserver interface {
	Refused(tenant string, window Window)
	Stepped(rung Rung)
	Seen(tenant string, levels Levels)
	Expired(leases int)
	RolledBack(tenant string)
	LedgerFailed()
	Settled(tenant string, kind Kind, actual Amount)
}

// A Biller receives the amounts of all calls, for bills. Settled must not block.
type Biller interface {
	Settled(call MeteredCall, actual Amount)
}

// A Meter reserves and settles budgets for the calls of one server. It is safe for concurrent use.
type Meter struct {
	ledger  Ledger
	renewer Renewer
	settler Settler
	watch   MeterObserver

	// Charges receives the amounts of calls without a reservation; nil: they are in no ledger. It
	// must be set before the first call.
	Charges *Charges
	// Biller receives the amounts of all calls; it may be nil. It must be set before the first
	// call.
	Biller Biller

	mu   sync.Mutex
	last *Hold // last of the list of open Holds
	open int   // number of open Holds
}

// NewMeter returns a Meter on a ledger, which settler settles. A Reserve of the ledger that fails
// must not hold anything, as with Fallback and Memory. Run renews open reservations.
func NewMeter(ledger Ledger, renewer Renewer, settler Settler, watch MeterObserver) *Meter {
	return &Meter{ledger: ledger, renewer: renewer, settler: settler, watch: watch}
}

// meterLease is the lease of reservations, after which the estimate is charged; a call that takes
// longer renews it.
const meterLease = 2 * time.Minute

// A MeteredCall is a call to be made for a tenant.
type MeteredCall struct {
	Tenant   string
	ID       string // "request:attempt"; unique
	Kind     Kind
	Estimate Amount // the most that it may use

	Model string // row of the model table, for bills; "" if it is not known
	Key   string // name of the caller's API key, for bills; "" if it has none
}

// A Hold is a granted reservation. Settle ends it; a Hold that nobody settles is charged its
// estimate when its lease expires, as after a crash.
type Hold struct {
	meter  *Meter
	ticket Ticket
	call   MeteredCall
	looks  int // how often renew has seen it

	before, after *Hold // neighbours in the Meter's list
	settled       bool
}

// Reserve reserves for a call. If there is no room, it tries the rungs of the ladder: cheaper
// changes kind and estimate to those of the call on a rung, and returns false if the rung does not
// change the call. The returned rung is the last one for which cheaper was called, or "" if the
// call has room unchanged. The error is a *Refusal, or says that the ledger cannot be reached.
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
			break // however cheap the call is, it is still one more request
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

// ask calls Reserve of the ledger and reports the result to the observer.
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

// helps reports whether a reduced call may have room in a window.
func helps(w Window) bool {
	return w != RequestsPerMinute && w != ParallelRequests
}

// fits reports whether levels have room for an estimate.
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

// Estimate returns the reserved amount.
func (h *Hold) Estimate() Amount { return h.call.Estimate }

// Settle ends the reservation with the actual amount. Only the first call counts.
func (h *Hold) Settle(actual Amount) {
	m := h.meter
	if !m.forget(h) {
		return
	}
	m.settler.Settle(Settlement{Ticket: h.ticket, Actual: actual})
	m.settled(h.call, actual)
}

// SettleModel is Settle for a call whose model was not known when it was reserved.
func (h *Hold) SettleModel(actual Amount, model string) {
	h.call.Model = cmp.Or(h.call.Model, model)
	h.Settle(actual)
}

// Add charges a call without a reservation, whose tenant has no relevant limits. ID and Estimate
// of the call do not matter. It does nothing if m is nil.
func (m *Meter) Add(c MeteredCall, actual Amount) {
	if m == nil || actual == (Amount{}) {
		return
	}
	if m.Charges != nil {
		m.Charges.Add(c.Tenant, c.Kind, actual)
	}
	m.settled(c, actual)
}

func (m *Meter) settled(c MeteredCall, actual Amount) {
	m.watch.Settled(c.Tenant, c.Kind, actual)
	if m.Biller != nil {
		m.Biller.Settled(c, actual)
	}
}

// forget removes h from the list; it returns false if it was removed before.
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
	h.before, h.after = nil, nil // so that settled Holds can be freed
	return true
}

// Open returns the number of unsettled reservations of this process.
func (m *Meter) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Run renews open reservations until ctx ends.
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

// renew renews each Hold at every second call, when at least half of its lease is left. One that
// cannot be renewed will be charged its estimate.
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
