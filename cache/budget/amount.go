// Package budget counts what tenants use against the limits that their owner set: a Meter reserves
// an amount in a Ledger before a call and settles it to the true amount after it. Prices say what
// tokens cost. It knows nothing of requests; callers say how much of what.
package budget

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// USD is one US dollar in the unit of money, 10⁻⁹ USD. Whoever works with finer prices
// rounds the cost of a call up to it.
const USD = 1_000_000_000

// Bounds of what can be counted. Redis computes with doubles, which are exact up to
// 2⁵³; a counter of money so reaches nine million dollars in a month.
const (
	MaxCount     = 1<<53 - 1             // of a counter, and of a limit by the day or month
	MaxAmount    = 1_000_000_000_000_000 // of one reservation or settlement, in each unit
	MaxPerMinute = 10_000_000_000        // of a limit by the minute
)

// An Amount is how much of each unit something takes. No field is negative.
type Amount struct {
	Requests int64 // calls on behalf of the client; 0 for internal calls, such as a planner's
	Tokens   int64 // input and output together
	Injected int64 // those of Tokens that Sidenote added
	Money    int64 // in 10⁻⁹ USD; see USD
}

// Check returns an error that wraps ErrInvalid and names the field if a field is
// negative or larger than MaxAmount.
func (a Amount) Check() error {
	for u, n := range a.units() {
		if n < 0 || n > MaxAmount {
			return fmt.Errorf("%w: %s are %d, want 0 to %d", ErrInvalid, unitNames[u], n, int64(MaxAmount))
		}
	}
	return nil
}

// Positions of the units in lists of them, in the order of Amount's fields.
const (
	requests = iota
	tokens
	injected
	money
	numUnits
)

var unitNames = [numUnits]string{"requests", "tokens", "injected tokens", "money"}

type units [numUnits]int64

func (a Amount) units() units { return units{a.Requests, a.Tokens, a.Injected, a.Money} }

func (u units) amount() Amount { return Amount{u[requests], u[tokens], u[injected], u[money]} }

// A Window is something that is limited. The numbers are positions in Limits and Levels
// and may change; the names (String) are for metrics and messages and stay.
type Window uint8

// The windows. Days and months are those of UTC.
const (
	RequestsPerMinute Window = iota
	TokensPerMinute
	InjectedPerMinute
	TokensPerDay
	InjectedPerDay
	MoneyPerDay
	MoneyPerMonth
	ParallelRequests // reservations with Requests > 0 that are open
	NumWindows
)

// minutes is the number of windows by the minute, which come first.
const minutes = int(TokensPerDay)

// String returns the window's name, as in the configuration: "tokens_per_day".
func (w Window) String() string {
	if w >= NumWindows {
		return fmt.Sprintf("window %d", uint8(w))
	}
	return [NumWindows]string{
		"requests_per_minute", "tokens_per_minute", "injected_tokens_per_minute", "tokens_per_day",
		"injected_tokens_per_day", "usd_per_day", "usd_per_month", "max_parallel_requests",
	}[w]
}

// unit returns the position of the unit that w limits.
func (w Window) unit() int {
	return [NumWindows]int{requests, tokens, injected, tokens, injected, money, money, requests}[w]
}

// Money tells whether w limits money.
func (w Window) Money() bool { return w.unit() == money }

// Number writes an amount of what w limits as a decimal number: requests, tokens, or US dollars,
// exactly.
func (w Window) Number(n int64) string {
	if w.Money() {
		return Dollars(n)
	}
	return strconv.FormatInt(n, 10)
}

// Dollars writes an amount of money as a decimal number of US dollars, exactly.
func Dollars(n int64) string {
	text := fmt.Sprintf("%d.%09d", n/USD, n%USD)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Limits are the limits of a tenant by Window; 0 means that there is none. Write them
// as Limits{TokensPerDay: 20_000_000, MoneyPerMonth: 1500 * USD}. They are passed with
// every reservation, so that new ones hold from the next reservation on.
type Limits [NumWindows]int64

// Check returns an error that wraps ErrInvalid and names the window if a limit is
// negative or larger than can be counted.
func (l Limits) Check() error {
	for w, limit := range l {
		most := int64(MaxCount)
		if w < minutes {
			most = MaxPerMinute
		}
		if limit < 0 || limit > most {
			return fmt.Errorf("%w: %s is %d, want 0 (none) to %d", ErrInvalid, Window(w), limit, most)
		}
	}
	return nil
}

// A Kind says what a reservation is for. Usage is told by kind; the limits hold for all
// of them together.
type Kind string

// The kinds; there are no others.
const (
	Chat      Kind = "chat"      // a client's call: chat, completion or response
	Embedding Kind = "embedding" // a client's call for embeddings, or our own
	Planner   Kind = "planner"   // a call that plans searches
	Rerank    Kind = "rerank"    // a call that orders what was found
	Grade     Kind = "grade"     // a call that grades what was found
	Tool      Kind = "tools"     // a later round of a call with tools
	Stage     Kind = "stage"     // a stage of a staged answer, the first one too
	Other     Kind = "other"     // a client's call to another listed route
)

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Clone(kindNames[:]) }

var kindNames = [...]Kind{Chat, Embedding, Planner, Rerank, Grade, Tool, Stage, Other}

// Errors of ledgers. Any other error means that the ledger could not be reached or
// written; whether the call took effect is then not known.
var (
	// ErrInvalid is the error of arguments that no ledger takes.
	ErrInvalid = errors.New("budget: invalid")
	// ErrClosed is the error of a reservation whose ID was settled before.
	ErrClosed = errors.New("budget: the id was settled before")
	// ErrCorrupt is the error of a tenant whose record in the ledger is not one: somebody
	// else wrote to it, or it is damaged. Nothing is granted and nothing is overwritten.
	ErrCorrupt = errors.New("budget: the ledger is corrupt")
	// ErrSkipped is the error of a ledger that was not asked, because it is known to fail;
	// nothing is held.
	ErrSkipped = errors.New("budget: the ledger was not asked")
	// ErrLost is the error of a tenant of whom the ledger has lost what this process has seen,
	// where that is not to be corrected: see redis.LedgerOptions. Nothing is granted.
	ErrLost = errors.New("budget: the ledger has lost what it had counted")
	// ErrInUse is the error of a folder that another ledger uses.
	ErrInUse = errors.New("budget: the folder is in use")
)

// MaxLease is the longest lease.
const MaxLease = 24 * time.Hour

// maxName is the most bytes of a tenant's name and of an ID.
const maxName = 128

// Check returns an error that wraps ErrInvalid if a ledger would not take r.
func (r Reservation) Check() error {
	switch {
	case !isName(r.Tenant):
		return fmt.Errorf("%w: tenant %q", ErrInvalid, r.Tenant)
	case !isName(r.ID):
		return fmt.Errorf("%w: id %q", ErrInvalid, r.ID)
	case !slices.Contains(kindNames[:], r.Kind):
		return fmt.Errorf("%w: kind %q", ErrInvalid, r.Kind)
	case r.Lease < time.Millisecond || r.Lease > MaxLease:
		return fmt.Errorf("%w: lease of %v, want 1ms to %v", ErrInvalid, r.Lease, MaxLease)
	}
	if err := r.Estimate.Check(); err != nil {
		return err
	}
	return errors.Join(r.Limits.Check(), r.Allowance.Check())
}

// Check returns an error that wraps ErrInvalid if a ledger would not take s.
func (s Settlement) Check() error {
	switch {
	case !isName(s.Tenant):
		return fmt.Errorf("%w: tenant %q", ErrInvalid, s.Tenant)
	case !isName(s.ID):
		return fmt.Errorf("%w: id %q", ErrInvalid, s.ID)
	}
	return s.Actual.Check()
}

// isName tells whether s can be part of a key of Redis and of a list in a script: 1 to
// 128 printable characters of ASCII, without blanks, commas and braces.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == ',' || c == '{' || c == '}' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxName
}
