package budget

import (
	"context"
	"time"
)

// A Ledger grants reservations and settles them. Its calls may be made concurrently and
// return by the context's deadline. All replicas that share a ledger share its counts.
type Ledger interface {
	// Reserve grants r if each limited window has room for its estimate, and holds the
	// estimate until it is settled; otherwise it changes nothing and says which window
	// refused. A window is not looked at where the estimate takes nothing of its unit.
	//
	// A repeated call with an ID that is open is granted without holding more. After an
	// error, but ErrSkipped, it is not known whether something is held: settle the Ticket
	// of r with a zero Amount. An ID that was settled is not granted again (ErrClosed), even if the
	// call that was given up arrives after its settlement.
	Reserve(ctx context.Context, r Reservation) (Decision, error)

	// Settle ends reservations by what they really took, and returns an outcome for
	// each, in order. It may be repeated: the second time changes nothing. After an error
	// any number of them may be settled, so repeat it with all.
	Settle(ctx context.Context, s ...Settlement) ([]Outcome, error)
}

// A Renewer prolongs reservations of calls that take longer than their lease.
type Renewer interface {
	// Renew lets the lease of an open reservation end that long from now, if that is later
	// than it would. It returns false if the reservation is not open.
	Renew(ctx context.Context, t Ticket, lease time.Duration) (bool, error)
}

// A Reporter tells what tenants used.
type Reporter interface {
	// Usage returns what a tenant has used and what it has left under limits. A tenant
	// that never reserved has used nothing.
	Usage(ctx context.Context, tenant string, limits Limits) (Usage, error)
}

// A Reservation asks for a part of a tenant's budget.
type Reservation struct {
	Tenant string // as for ID
	// ID is "request:attempt" and unique for each call, the internal ones included: 1 to
	// 128 printable characters of ASCII without blank, comma and brace.
	ID       string
	Kind     Kind
	Estimate Amount // the most that the call is expected to take
	Limits   Limits // all limits of the tenant, at present
	// Lease is how long the reservation is held if nobody settles it, as after a crash:
	// twice the longest duration of the call, or less with Renew. At its end the estimate
	// is charged, because it is not known whether the call ran.
	Lease time.Duration
	// Allowance is what this process may grant by itself while a shared ledger cannot be
	// asked; only a Fallback looks at it. Where Limits has a limit and Allowance has none,
	// nothing is granted then: the zero value fails closed.
	Allowance Limits
}

// Ticket returns what settles r.
func (r Reservation) Ticket() Ticket { return Ticket{Tenant: r.Tenant, ID: r.ID, Kind: r.Kind} }

// A Ticket names a reservation by its tenant and ID. Settle the one of the Decision: what
// else it holds is for a Fallback, and for the ledger.
type Ticket struct {
	Tenant, ID string
	Kind       Kind
	Local      bool // granted by the allowance of this process
	// Mark is for a ledger that may lose reservations: when it granted this one. By it a call
	// is charged though its reservation was lost.
	Mark int64
}

// A Settlement says what a call really took.
type Settlement struct {
	Ticket
	// Actual may be more than the estimate; the windows then go beyond their limits, and
	// buckets by the minute into debt, of one minute's limit at most. A field of zero
	// gives all back, also the request itself.
	Actual Amount
}

// An Outcome says what Settle did.
type Outcome string

// The outcomes.
const (
	Settled Outcome = "settled"
	// Repeated: it was settled before; nothing changed.
	Repeated Outcome = "repeated"
	// Expired: its lease ended before, so the estimate was charged and stays.
	Expired Outcome = "expired"
	// Unknown: the ledger does not know the ID; a reservation by it is refused from now on.
	Unknown Outcome = "unknown"
)

// A Decision answers a Reservation.
type Decision struct {
	Ticket  Ticket
	Granted bool

	// Window is the one that refused; of several, the one that is full longest.
	Window Window
	// Wait is the shortest time after which the same reservation can be granted: for
	// Retry-After. Where only reservations of other calls stand in the way, which may be
	// given back at any time, it is one second.
	Wait time.Duration
	// Never means that the estimate is larger than the whole limit, so that no waiting
	// helps. Wait is 0 then.
	Never bool

	Levels  Levels // after the reservation, if it was granted
	Expired int    // leases of this tenant that ended and were charged by this call
	// RolledBack means that the ledger had lost what this process knew of, as after the
	// restart of Redis from an old snapshot, and that it was made up for from memory.
	RolledBack bool
}

// A Level is how full a window is.
type Level struct {
	Limit int64         // 0 if there is none; the rest is 0 then too
	Left  int64         // never negative
	Reset time.Duration // until Left is Limit again if nothing more is taken; 0 for parallel requests
}

// Levels are the levels by Window.
type Levels [NumWindows]Level

// Usage is what a tenant used and what is left.
type Usage struct {
	Levels   Levels
	Day      Period
	Month    Period
	Parallel int64 // reservations with Requests > 0 that are open
	Expired  int   // leases that ended and were charged by this call
}

// A Period is what was used on a day or in a month of UTC.
type Period struct {
	Start, End time.Time
	Spent      Amount          // settled, or charged at the end of a lease
	Held       Amount          // reserved by calls that are not settled
	Kinds      map[Kind]Amount // Spent by kind, without those that spent nothing
}
