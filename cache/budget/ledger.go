package budget

import (
	"context"
	"time"
)

// A Ledger grants reservations and settles them. Its methods are safe for concurrent use and
// return by the context's deadline. All replicas that share a ledger share its counts.
type Ledger interface {
	// Reserve grants r if each window with a limit has room for its estimate, and holds the
	// estimate until it is settled; otherwise it changes nothing and returns the window that
	// refused. Windows of which the estimate takes nothing are ignored.
	//
	// A repeated call with an open ID is granted without holding more. After an error other than
	// ErrSkipped, it is unknown whether something is held: settle the Ticket of r with a zero
	// Amount. A settled ID is not granted again (ErrClosed), even if a call that was given up
	// arrives after its settlement.
	Reserve(ctx context.Context, r Reservation) (Decision, error)

	// Settle ends reservations with their actual amounts, and returns an outcome for each, in
	// order. It may be repeated: the second time changes nothing. After an error any number of
	// them may be settled, so repeat it with all.
	Settle(ctx context.Context, s ...Settlement) ([]Outcome, error)
}

// A Renewer extends reservations of calls that take longer than their lease.
type Renewer interface {
	// Renew extends the lease of an open reservation to at least now + lease. It returns false if
	// the reservation is not open.
	Renew(ctx context.Context, t Ticket, lease time.Duration) (bool, error)
}

// A Reporter reports the usage of tenants.
type Reporter interface {
	// Usage returns the usage of a tenant and what is left under limits. A tenant that never
	// reserved has used nothing.
	Usage(ctx context.Context, tenant string, limits Limits) (Usage, error)
}

// A Reservation requests a part of a tenant's budget.
type Reservation struct {
	Tenant string // restricted like ID
	// ID is "request:attempt" and unique for each call, including internal ones: 1 to 128
	// printable ASCII characters without blanks, commas and braces.
	ID       string
	Kind     Kind
	Estimate Amount // the most that the call is expected to use
	Limits   Limits // all current limits of the tenant
	// Lease is how long the reservation is held if nobody settles it, as after a crash: twice the
	// longest duration of the call, or less with Renew. When it expires, the estimate is charged,
	// because it is unknown whether the call ran.
	Lease time.Duration
	// Allowance is what this process may grant by itself while a shared ledger cannot be asked; it
	// is used only by a Fallback. If Limits has a limit without an allowance, nothing is granted
	// then: the zero value fails closed.
	Allowance Limits
}

// Ticket returns the Ticket for settling r.
func (r Reservation) Ticket() Ticket { return Ticket{Tenant: r.Tenant, ID: r.ID, Kind: r.Kind} }

// A Ticket identifies a reservation by tenant and ID. Settle the one of the Decision: its other
// fields are for a Fallback and for the ledger.
type Ticket struct {
	Tenant, ID string
	Kind       Kind
	Local      bool // granted by the allowance of this process
	// Mark is when a ledger that may lose reservations granted this one. With it, a call is
	// charged even if its reservation was lost.
	Mark int64
}

// A Settlement holds the actual amount of a call.
type Settlement struct {
	Ticket
	// Actual may exceed the estimate; the windows then exceed their limits, and buckets per minute
	// go into debt, by at most one minute's limit. A zero field gives everything back, including
	// the request itself.
	Actual Amount
}

// An Outcome is the result of a settlement.
type Outcome string

// The outcomes.
const (
	Settled Outcome = "settled"
	// Repeated: it was settled before; nothing changed.
	Repeated Outcome = "repeated"
	// Expired: its lease had expired, so the estimate was charged and stays.
	Expired Outcome = "expired"
	// Unknown: the ledger does not know the ID; from now on it refuses reservations with it.
	Unknown Outcome = "unknown"
)

// A Decision is the answer to a Reservation.
type Decision struct {
	Ticket  Ticket
	Granted bool

	// Window is the one that refused; of several, the one with the longest wait.
	Window Window
	// Wait is the shortest time after which the same reservation can be granted, for Retry-After.
	// If only reservations of other calls are in the way, which may end at any time, it is one
	// second.
	Wait time.Duration
	// Never means that the estimate exceeds the whole limit, so that waiting does not help. Wait
	// is then 0.
	Never bool

	Levels  Levels // after the reservation, if it was granted
	Expired int    // leases of this tenant that expired and were charged by this call
	// RolledBack means that the ledger had lost counts that this process knew, as after a restart
	// of Redis from an old snapshot, and that they were restored from memory.
	RolledBack bool
}

// A Level is how full a window is.
type Level struct {
	Limit int64         // 0 if there is none; the other fields are then 0, too
	Left  int64         // never negative
	Reset time.Duration // until Left equals Limit if nothing more is used; 0 for parallel requests
}

// Levels are the levels by Window.
type Levels [NumWindows]Level

// Usage is what a tenant has used and has left.
type Usage struct {
	Levels   Levels
	Day      Period
	Month    Period
	Parallel int64 // open reservations with Requests > 0
	Expired  int   // leases that expired and were charged by this call
}

// A Period is the usage on a day or in a month of UTC.
type Period struct {
	Start, End time.Time
	Spent      Amount          // settled, or charged when a lease expired
	Held       Amount          // reserved by calls that are not settled
	Kinds      map[Kind]Amount // Spent by kind, without kinds that spent nothing
}
