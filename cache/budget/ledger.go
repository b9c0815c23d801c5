package budget

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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

// perMinute is the number of milliseconds in a minute. The fill of a bucket is counted in units ×
// perMinute, so that a bucket drains by its limit each millisecond and no fraction of a unit is
// lost.
const perMinute = int64(time.Minute / time.Millisecond)

// busyWait is the Wait if only open reservations of other calls are in the way.
const busyWait = time.Second

// A State is what a ledger knows about a tenant at one time. All ledgers use LevelsOf and Refuse
// on it, so that they give the same answers.
type State struct {
	Now                   int64    // milliseconds since 1970, by the ledger's clock
	Fill                  [3]int64 // of the buckets per minute, in units × 60,000; 0 without a limit
	DaySpent, DayHeld     Amount   // on the day of Now
	MonthSpent, MonthHeld Amount   // in the month of Now
	Parallel              int64
}

// counts returns what is spent and held in the unit of w, a window per day or month.
func (s *State) counts(w Window) (spent, held int64) {
	if w == MoneyPerMonth {
		return s.MonthSpent.units()[w.unit()], s.MonthHeld.units()[w.unit()]
	}
	return s.DaySpent.units()[w.unit()], s.DayHeld.units()[w.unit()]
}

// end returns the time from Now to the end of w, a window per day or month.
func (s *State) end(w Window) time.Duration {
	_, end := dayOf(s.Now).span()
	if w == MoneyPerMonth {
		_, end = monthOf(s.Now).span()
	}
	return end.Sub(time.UnixMilli(s.Now))
}

// LevelsOf returns how full the windows of limits are.
func LevelsOf(limits Limits, s State) (levels Levels) {
	for w, limit := range limits {
		if limit == 0 {
			continue
		}
		level := Level{Limit: limit}
		switch w := Window(w); {
		case int(w) < minutes:
			level.Left = limit - up(s.Fill[w], perMinute)
			level.Reset = milliseconds(up(s.Fill[w], limit))
		case w == ParallelRequests:
			level.Left = limit - s.Parallel
		default:
			spent, held := s.counts(w)
			level.Left, level.Reset = limit-spent-held, s.end(w)
		}
		level.Left = max(level.Left, 0)
		levels[w] = level
	}
	return levels
}

// Refuse decides about r in state s, before r is held: it returns the refusal of the windows, or
// false if all of them have room; Levels are then not set.
func Refuse(r Reservation, s State) (d Decision, refused bool) {
	d = Decision{Ticket: r.Ticket()}
	estimate := r.Estimate.units()
	for w := range NumWindows {
		limit, takes := r.Limits[w], estimate[w.unit()]
		if limit == 0 || takes == 0 {
			continue
		}
		wait, never := s.wait(w, limit, takes)
		if wait == 0 && !never || refused && (d.Never || !never && wait <= d.Wait) {
			continue
		}
		d.Window, d.Wait, d.Never, refused = w, wait, never, true
	}
	if refused {
		d.Levels = LevelsOf(r.Limits, s)
	}
	return d, refused
}

// wait returns how long it takes until w has room for takes; 0 if it has room now. never is true
// if that exceeds the whole limit.
func (s *State) wait(w Window, limit, takes int64) (wait time.Duration, never bool) {
	if w == ParallelRequests {
		if s.Parallel < limit {
			return 0, false
		}
		return busyWait, false
	}
	if takes > limit {
		return 0, true
	}
	if int(w) < minutes {
		return milliseconds(up(s.Fill[w]-(limit-takes)*perMinute, limit)), false
	}
	switch spent, held := s.counts(w); {
	case spent <= limit-takes-held: // no sum here can exceed 2⁶³
		return 0, false
	case spent <= limit-takes:
		return busyWait, false
	}
	return s.end(w), false
}

// up returns n / by, rounded up; 0 if n is not positive.
func up(n, by int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n + by - 1) / by
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// A day is a number of days since 1970, a month one of months; both in UTC.
type (
	day   int64
	month int64
)

const dayMillis = int64(24 * time.Hour / time.Millisecond)

func dayOf(now int64) day { return day(now / dayMillis) }

func monthOf(now int64) month {
	t := time.UnixMilli(now).UTC()
	return month((t.Year()-1970)*12 + int(t.Month()) - 1)
}

func (d day) span() (start, end time.Time) {
	start = time.UnixMilli(int64(d) * dayMillis).UTC()
	return start, start.Add(24 * time.Hour)
}

func (m month) span() (start, end time.Time) {
	first := func(m month) time.Time { return time.Date(1970, time.Month(1+m), 1, 0, 0, 0, 0, time.UTC) }
	return first(m), first(m + 1)
}

// Periods returns the day and the month of Now, without kinds.
func (s *State) Periods() (day, month Period) {
	day = Period{Spent: s.DaySpent, Held: s.DayHeld, Kinds: map[Kind]Amount{}}
	day.Start, day.End = dayOf(s.Now).span()
	month = Period{Spent: s.MonthSpent, Held: s.MonthHeld, Kinds: map[Kind]Amount{}}
	month.Start, month.End = monthOf(s.Now).span()
	return day, month
}

// The first byte of a record of the journal. A record holds a call and its time; replaying the
// calls restores the state, because an account is deterministic. Later versions read these
// records, so never change the meaning of a letter.
const (
	recordReserve  = 'r'
	recordSettle   = 's'
	recordRenew    = 'n'
	recordUsage    = 'u'
	recordSnapshot = 'a' // a complete account, replacing what was known about it
)

func reserveRecord(b []byte, now int64, r Reservation) []byte {
	b = appendText(append(b, recordReserve), r.Tenant, r.ID, string(r.Kind))
	b = appendInts(b, now, r.Lease.Milliseconds())
	b = appendInts(b, r.Estimate.Requests, r.Estimate.Tokens, r.Estimate.Injected, r.Estimate.Money)
	return appendInts(b, r.Limits[:]...)
}

func settleRecord(b []byte, s Settlement) []byte {
	b = appendText(append(b, recordSettle), s.Tenant, s.ID)
	return appendInts(b, s.Actual.Requests, s.Actual.Tokens, s.Actual.Injected, s.Actual.Money)
}

func renewRecord(b []byte, now int64, t Ticket, lease time.Duration) []byte {
	return appendInts(appendText(append(b, recordRenew), t.Tenant, t.ID), now, lease.Milliseconds())
}

func usageRecord(b []byte, now int64, tenant string) []byte {
	return appendInts(appendText(append(b, recordUsage), tenant), now)
}

func snapshotRecord(b []byte, tenant string, a *account) ([]byte, error) {
	state, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return append(appendText(append(b, recordSnapshot), tenant), state...), nil
}

func appendText(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

func appendInts(b []byte, ints ...int64) []byte {
	for _, n := range ints {
		b = binary.AppendVarint(b, n)
	}
	return b
}

var errRecord = errors.New("not a record")

// replay applies a record to accounts.
func replay(accounts map[string]*account, record []byte) error {
	if len(record) == 0 {
		return errRecord
	}
	d := decoder{b: record[1:]}
	tenant := d.text()
	a := accounts[tenant]
	if a == nil {
		a = &account{}
		accounts[tenant] = a
	}
	switch record[0] {
	case recordReserve:
		a.replayReserve(&d, tenant)
	case recordSettle:
		id, actual := d.text(), d.amount()
		a.settleID(id, actual)
	case recordRenew:
		id, now, lease := d.text(), d.int(), d.int()
		a.renew(now, id, now+lease)
	case recordUsage:
		a.usage(d.int(), Limits{})
	case recordSnapshot:
		*a = account{}
		if err := json.Unmarshal(d.b, a); err != nil {
			return fmt.Errorf("%w: %w", errRecord, err)
		}
		a.restore()
		d.b = nil
	default:
		return errRecord
	}
	if d.bad || len(d.b) > 0 {
		return errRecord
	}
	return nil
}

func (a *account) replayReserve(d *decoder, tenant string) {
	r := Reservation{Tenant: tenant, ID: d.text(), Kind: Kind(d.text())}
	now := d.int()
	r.Lease = milliseconds(d.int())
	r.Estimate = d.amount()
	for w := range r.Limits {
		r.Limits[w] = d.int()
	}
	if d.bad || r.Check() != nil {
		d.bad = true
		return
	}
	_, _, _ = a.reserve(now, r) // it may be a refusal that expired leases
}

// A decoder reads the fields of a record. After an error it returns only zero values.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) text() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)-size) {
		d.bad, d.b = true, nil
		return ""
	}
	text := string(d.b[size : size+int(n)])
	d.b = d.b[size+int(n):]
	return text
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) amount() Amount {
	return Amount{Requests: d.int(), Tokens: d.int(), Injected: d.int(), Money: d.int()}
}

// A Refusal is the error for a call that exceeds a limit.
type Refusal struct {
	Window Window
	Wait   time.Duration // until it may succeed; see Decision
	Never  bool          // it exceeds the whole limit
	Levels Levels
}

// Error tells the caller which limit is reached, and what helps.
func (r *Refusal) Error() string {
	limit := amount(r.Window, r.Levels[r.Window].Limit)
	switch {
	case r.Never:
		return fmt.Sprintf("This request alone may take more than your limit %s, %s; make it shorter, or set a lower limit for its answer.", r.Window, limit)
	case r.Window == ParallelRequests:
		return fmt.Sprintf("You have as many requests at once as your limit %s allows, %s; try again when one has ended.", r.Window, limit)
	case r.RetryFails():
		return fmt.Sprintf("Your limit %s, %s, is reached; it is free again at %s UTC.", r.Window, limit,
			time.Now().Add(r.Wait).UTC().Truncate(time.Second).Format(time.DateTime))
	}
	return fmt.Sprintf("Your limit %s, %s, is reached; try again in %s.", r.Window, limit, r.Wait.Round(time.Millisecond))
}

// FormatLimit formats a window and its limit for people: "usd_per_month $1500".
func FormatLimit(w Window, limit int64) string { return w.String() + " " + amount(w, limit) }

func amount(w Window, n int64) string {
	if w == MoneyPerDay || w == MoneyPerMonth {
		return "$" + strconv.FormatFloat(float64(n)/USD, 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
}

// maxWait is the longest time that clients wait by themselves: OpenAI's SDKs ignore a longer
// Retry-After.
const maxWait = time.Minute

// RetryFails reports whether an automatic retry by the client cannot succeed.
func (r *Refusal) RetryFails() bool { return r.Never || r.Wait > maxWait }

// Quota reports whether the limit is per day or month.
func (r *Refusal) Quota() bool {
	switch r.Window {
	case TokensPerDay, InjectedPerDay, MoneyPerDay, MoneyPerMonth:
		return true
	}
	return false
}

// Kind returns OpenAI's error.type and error.code for such a refusal.
func (r *Refusal) Kind() (kind, code string) {
	switch r.Window {
	case RequestsPerMinute, ParallelRequests:
		return "requests", "rate_limit_exceeded"
	case TokensPerMinute, InjectedPerMinute:
		return "tokens", "rate_limit_exceeded"
	}
	return "insufficient_quota", "insufficient_quota"
}

// Headers calls set with the headers that tell official SDKs how long to wait: Retry-After,
// x-should-retry, and for the windows per minute x-ratelimit-* or, for SDKs of Anthropic,
// anthropic-ratelimit-*.
func (r *Refusal) Headers(anthropic bool, set func(name, value string)) {
	up := func(d, unit time.Duration) string { return strconv.FormatInt(int64((d+unit-1)/unit), 10) }
	if r.RetryFails() {
		set("X-Should-Retry", "false")
	} else {
		set("Retry-After-Ms", up(r.Wait, time.Millisecond))
	}
	if !r.Never {
		set("Retry-After", up(r.Wait, time.Second))
	}
	for name, w := range map[string]Window{"Requests": RequestsPerMinute, "Tokens": TokensPerMinute} {
		l := r.Levels[w]
		switch {
		case l.Limit == 0:
		case anthropic:
			set("Anthropic-Ratelimit-"+name+"-Limit", strconv.FormatInt(l.Limit, 10))
			set("Anthropic-Ratelimit-"+name+"-Remaining", strconv.FormatInt(l.Left, 10))
			set("Anthropic-Ratelimit-"+name+"-Reset", time.Now().Add(l.Reset+time.Second-1).UTC().Format(time.RFC3339))
		default:
			set("X-Ratelimit-Limit-"+name, strconv.FormatInt(l.Limit, 10))
			set("X-Ratelimit-Remaining-"+name, strconv.FormatInt(l.Left, 10))
			set("X-Ratelimit-Reset-"+name, l.Reset.Round(time.Millisecond).String())
		}
	}
}
