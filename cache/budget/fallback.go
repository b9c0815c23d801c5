package budget

import (
	"context"
	"errors"
	"sync/atomic"
)

// A Fallback is a Ledger that uses a shared one and, while that cannot be asked, grants up to the
// reservation's Allowance, counted in this process only: N replicas grant at most N allowances.
// Without an allowance it fails as the shared ledger does.
//
// Amounts granted in this way are charged to the shared ledger by their settlement, ignoring
// limits, as soon as it can be asked again.
type Fallback struct {
	shared  Ledger
	local   *Memory
	abandon func(Settlement)
	inUse   atomic.Bool
}

// NewFallback returns a fallback for shared; local counts the allowances. abandon is called with
// reservations that may be held in the shared ledger although its answer did not arrive, to settle
// them to zero. It must not block; usually it is Settle of a Queue on the Fallback.
func NewFallback(shared Ledger, local *Memory, abandon func(Settlement)) *Fallback {
	return &Fallback{shared: shared, local: local, abandon: abandon}
}

// Local reports whether the last reservation was decided by the allowance.
func (f *Fallback) Local() bool { return f.inUse.Load() }

// Reserve implements Ledger. The Ticket of what the allowance granted has Local set.
func (f *Fallback) Reserve(ctx context.Context, r Reservation) (Decision, error) {
	d, err := f.shared.Reserve(ctx, r)
	switch {
	case err == nil, errors.Is(err, ErrInvalid), errors.Is(err, ErrClosed):
		f.inUse.Store(false)
		return d, err
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrLost):
		return d, err // it can be asked, but the counts of this tenant are unknown
	case !errors.Is(err, ErrSkipped):
		f.abandon(Settlement{Ticket: r.Ticket()})
	}
	limits, ok := allowed(r)
	if !ok {
		return d, err
	}
	f.inUse.Store(true)
	r.Limits = limits
	if d, err = f.local.Reserve(ctx, r); err == nil {
		d.Ticket.Local = true
	}
	return d, err
}

// allowed returns the limits that apply without the shared ledger. If a window with a limit has no
// allowance, nothing is allowed.
func allowed(r Reservation) (limits Limits, ok bool) {
	for w, limit := range r.Limits {
		if limit == 0 {
			continue
		}
		if r.Allowance[w] == 0 {
			return Limits{}, false
		}
		limits[w] = min(limit, r.Allowance[w])
	}
	return limits, true
}

// Settle implements Ledger.
func (f *Fallback) Settle(ctx context.Context, settlements ...Settlement) ([]Outcome, error) {
	outcomes := make([]Outcome, len(settlements))
	var shared []Settlement
	var positions []int
	for i, s := range settlements {
		if !s.Local {
			shared, positions = append(shared, s), append(positions, i)
			continue
		}
		var err error
		if outcomes[i], err = f.settleLocal(ctx, s); err != nil {
			return nil, err
		}
	}
	if len(shared) == 0 {
		return outcomes, nil
	}
	done, err := f.shared.Settle(ctx, shared...)
	if err != nil {
		return nil, err
	}
	for i, outcome := range done {
		outcomes[positions[i]] = outcome
	}
	return outcomes, nil
}

// settleLocal settles what the allowance granted and charges it to the shared ledger. It can be
// repeated: the ledgers know what was done.
func (f *Fallback) settleLocal(ctx context.Context, s Settlement) (Outcome, error) {
	outcome, err := f.local.Settle(ctx, s)
	if err != nil {
		return "", err
	}
	charge := Reservation{Tenant: s.Tenant, ID: chargeID(s.ID), Kind: s.Kind, Estimate: s.Actual, Lease: MaxLease}
	_, err = f.shared.Reserve(ctx, charge)
	if errors.Is(err, ErrClosed) {
		return outcome[0], nil // it was charged before
	}
	if err != nil {
		return "", err
	}
	if _, err := f.shared.Settle(ctx, Settlement{Ticket: charge.Ticket(), Actual: s.Actual}); err != nil {
		return "", err
	}
	return outcome[0], nil
}

// chargeID returns the ID of a charge. The reservation's own may have been abandoned.
func chargeID(id string) string {
	const prefix = "local:"
	return prefix + id[max(0, len(id)-(maxName-len(prefix))):]
}
