// Package budget counts the usage of tenants against their limits: a Meter reserves an amount in a
// Ledger before a call and settles the actual amount after it. Prices say what tokens cost. The
// package knows nothing of requests; callers provide the amounts.
package budget

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// USD is one US dollar in the unit of money, 10⁻⁹ USD. Costs at finer prices are rounded up to it.
const USD = 1_000_000_000

// Limits of what can be counted. Redis computes with doubles, which are exact up to 2⁵³; so a
// counter of money reaches nine million dollars in a month.
const (
	MaxCount     = 1<<53 - 1             // of a counter, and of a limit per day or month
	MaxAmount    = 1_000_000_000_000_000 // of one reservation or settlement, in each unit
	MaxPerMinute = 10_000_000_000        // of a limit per minute
)

// An Amount holds a quantity of each unit. No field is negative.
type Amount struct {
	Requests int64 // client requests; 0 for internal calls, such as a planner's
	Tokens   int64 // input plus output
	Injected int64 // part of Tokens that Sidenote added
	Money    int64 // in 10⁻⁹ USD; see USD
}

// Check returns an error that wraps ErrInvalid and names the field if a field is negative or
// larger than MaxAmount.
func (a Amount) Check() error {
	for u, n := range a.units() {
		if n < 0 || n > MaxAmount {
			return fmt.Errorf("%w: %s are %d, want 0 to %d", ErrInvalid, unitNames[u], n, int64(MaxAmount))
		}
	}
	return nil
}

// Indexes of the units, in the order of Amount's fields.
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

// A Window is a quantity with a limit, such as tokens per day. Its value is an index in Limits and
// Levels and may change; its name (String) is for metrics and messages and does not change.
type Window uint8

// The windows. Days and months are in UTC.
const (
	RequestsPerMinute Window = iota
	TokensPerMinute
	InjectedPerMinute
	TokensPerDay
	InjectedPerDay
	MoneyPerDay
	MoneyPerMonth
	ParallelRequests // open reservations with Requests > 0
	NumWindows
)

// minutes is the number of windows per minute, which come first.
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

// unit returns the index of the unit that w limits.
func (w Window) unit() int {
	return [NumWindows]int{requests, tokens, injected, tokens, injected, money, money, requests}[w]
}

// Money reports whether w limits money.
func (w Window) Money() bool { return w.unit() == money }

// Number formats an amount of w's unit as an exact decimal number of requests, tokens, or US
// dollars.
func (w Window) Number(n int64) string {
	if w.Money() {
		return Dollars(n)
	}
	return strconv.FormatInt(n, 10)
}

// Dollars formats an amount of money as an exact decimal number of US dollars.
func Dollars(n int64) string {
	text := fmt.Sprintf("%d.%09d", n/USD, n%USD)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Limits are the limits of a tenant by Window; 0 means no limit. For example, Limits{TokensPerDay:
// 20_000_000, MoneyPerMonth: 1500 * USD}. They are passed with every reservation, so that new
// limits apply from the next reservation on.
type Limits [NumWindows]int64

// Check returns an error that wraps ErrInvalid and names the window if a limit is negative or too
// large to be counted.
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

// A Kind says what a reservation is for. Usage is reported by kind; limits apply to the sum of all
// kinds.
type Kind string

// All kinds.
const (
	Chat      Kind = "chat"      // a client's call: chat, completion or response
	Embedding Kind = "embedding" // an embedding call, of a client or of Sidenote
	Planner   Kind = "planner"   // a call that plans searches
	Rerank    Kind = "rerank"    // a call that reranks candidates
	Grade     Kind = "grade"     // a call that grades candidates
	Tool      Kind = "tools"     // a later round of a call with tools
	Stage     Kind = "stage"     // a stage of a staged answer, including the first one
	Other     Kind = "other"     // a client's call to another listed route
)

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Clone(kindNames[:]) }

var kindNames = [...]Kind{Chat, Embedding, Planner, Rerank, Grade, Tool, Stage, Other}

// Errors of ledgers. Any other error means that the ledger could not be reached or written; it is
// then unknown whether the call took effect.
var (
	// ErrInvalid is the error for arguments that no ledger accepts.
	ErrInvalid = errors.New("budget: invalid")
	// ErrClosed is the error for a reservation whose ID was settled before.
	ErrClosed = errors.New("budget: the id was settled before")
	// ErrCorrupt is the error for a tenant whose record in the ledger is invalid: somebody else
	// wrote to it, or it is damaged. Nothing is granted and nothing is overwritten.
	ErrCorrupt = errors.New("budget: the ledger is corrupt")
	// ErrSkipped is the error of a ledger that was not asked, because it is known to fail; nothing
	// is held.
	ErrSkipped = errors.New("budget: the ledger was not asked")
	// ErrLost is the error for a tenant whose record has lost counts that this process has seen,
	// if the ledger does not correct them: see RefuseLost in redis.LedgerOptions. Nothing is
	// granted.
	ErrLost = errors.New("budget: the ledger has lost what it had counted")
	// ErrInUse is the error for a folder that another ledger uses.
	ErrInUse = errors.New("budget: the folder is in use")
)

// MaxLease is the longest allowed lease.
const MaxLease = 24 * time.Hour

// maxName limits the bytes of a tenant's name and of an ID.
const maxName = 128

// Check returns an error that wraps ErrInvalid if no ledger would accept r.
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

// Check returns an error that wraps ErrInvalid if no ledger would accept s.
func (s Settlement) Check() error {
	switch {
	case !isName(s.Tenant):
		return fmt.Errorf("%w: tenant %q", ErrInvalid, s.Tenant)
	case !isName(s.ID):
		return fmt.Errorf("%w: id %q", ErrInvalid, s.ID)
	}
	return s.Actual.Check()
}

// isName reports whether s can be part of a Redis key and of a list in a script: 1 to 128
// printable ASCII characters without blanks, commas and braces.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == ',' || c == '{' || c == '}' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxName
}
