// Package budgettest holds what every ledger of budgets must do.
package budgettest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/cache/budget"
)

// A Full ledger is all that one can be.
type Full interface {
	budget.Ledger
	budget.Renewer
	budget.Reporter
}

// A Clock is a time that a test sets.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at noon of a day in the middle of a month.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock, backwards too.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A Subject is a ledger under test that goes by a clock and is used by nobody else.
type Subject struct {
	Ledger Full
	// Restart ends the ledger as kill -9 would and returns it opened anew; nil if there is
	// no such thing.
	Restart func() Full
	// Charges tells whether a restart charges what is open.
	Charges bool
	// Disturb does what must not be noticed; nil if there is nothing.
	Disturb func()
}

// Machine runs a random sequence of calls, of time and of crashes against the ledger
// and against a slow and simple one, which must say the same after each. It holds rows
// R13, R21, R22 and P7 of the faults.
func Machine(t *testing.T, open func(t *rapid.T, clock *Clock) Subject) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock()
		m := &machine{clock: clock, subject: open(rt, clock), model: newModel()}
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": m.reserve, "reserve again": m.reserveAgain, "settle": m.settle, "renew": m.renew,
			"time": m.time, "clock": m.setClock, "crash": m.crash, "": m.check,
		})
	})
}

type machine struct {
	clock   *Clock
	subject Subject
	model   *model
	ids     []string
}

const tenant = "acme"

func (m *machine) now() int64 { return m.clock.Now().UnixMilli() }

// limitSets are small, so that each window refuses now and then.
var limitSets = []budget.Limits{
	{},
	{budget.RequestsPerMinute: 5, budget.ParallelRequests: 3},
	{budget.TokensPerMinute: 1000, budget.TokensPerDay: 5000},
	{budget.TokensPerMinute: 700, budget.InjectedPerMinute: 90, budget.InjectedPerDay: 300},
	{budget.MoneyPerDay: 9 * budget.USD, budget.MoneyPerMonth: 20 * budget.USD, budget.RequestsPerMinute: 7},
	{budget.TokensPerDay: budget.MaxCount, budget.TokensPerMinute: budget.MaxPerMinute},
}

func amounts(most int64) *rapid.Generator[budget.Amount] {
	return rapid.Custom(func(t *rapid.T) budget.Amount {
		tokens := rapid.Int64Range(0, most).Draw(t, "tokens")
		return budget.Amount{
			Requests: rapid.Int64Range(0, 1).Draw(t, "requests"), Tokens: tokens,
			Injected: min(tokens, rapid.Int64Range(0, 60).Draw(t, "injected")),
			Money:    tokens * budget.USD / 100 * rapid.Int64Range(0, 1).Draw(t, "price"),
		}
	})
}

func (m *machine) reserve(t *rapid.T) {
	id := fmt.Sprintf("r%d:1", len(m.ids))
	m.ids = append(m.ids, id)
	m.ask(t, id)
}

func (m *machine) reserveAgain(t *rapid.T) { m.ask(t, m.anyID(t)) }

func (m *machine) anyID(t *rapid.T) string {
	if len(m.ids) == 0 {
		t.Skip("none yet")
	}
	// The last ones are more likely to be open.
	n := len(m.ids)
	return m.ids[max(0, n-1-rapid.IntRange(0, min(n-1, 9)).Draw(t, "id"))]
}

func (m *machine) ask(t *rapid.T, id string) {
	r := budget.Reservation{
		Tenant: tenant, ID: id,
		Kind:     rapid.SampledFrom(budget.Kinds()).Draw(t, "kind"),
		Estimate: amounts(400).Draw(t, "estimate"),
		Limits:   rapid.SampledFrom(limitSets).Draw(t, "limits"),
		Lease:    rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, 2 * time.Hour}).Draw(t, "lease"),
	}
	refused, expired, closed, levels := m.model.reserve(m.now(), r)
	got, err := m.subject.Ledger.Reserve(t.Context(), r)
	if closed {
		if !errors.Is(err, budget.ErrClosed) {
			t.Fatalf("reserve %s again: got %+v, %v, want ErrClosed", id, got, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("reserve %+v: %v", r, err)
	}
	switch {
	case got.Granted != (refused == nil):
		t.Fatalf("reserve %+v: got %+v; the model is refused by %v", r, got, refused)
	case !got.Granted && !slices.Contains(refused, got.Window):
		t.Fatalf("reserve %+v: refused by %v, the model by %v", r, got.Window, refused)
	case !got.Granted && got.Never != (of(r.Estimate, got.Window) > r.Limits[got.Window] && got.Window != budget.ParallelRequests):
		t.Fatalf("reserve %+v: never=%v", r, got.Never)
	case !sameReservation(got.Ticket, r.Ticket()) || got.Expired != expired || got.RolledBack:
		t.Fatalf("reserve %+v: got %+v, want %d expired", r, got, expired)
	}
	if diff := cmp.Diff(levels, got.Levels); diff != "" {
		t.Fatalf("levels after reserve %+v: %s", r, diff)
	}
	m.waits(t, r, got)
}

// waits holds that a Wait is exact where only time is waited for: a millisecond less and
// the window refuses still.
func (m *machine) waits(t *rapid.T, r budget.Reservation, d budget.Decision) {
	if d.Granted || d.Never || d.Window > budget.InjectedPerMinute {
		return
	}
	then := *m.model
	then.pass(m.now())
	fill, limit := then.drained(int(d.Window), r.Limits[d.Window]), r.Limits[d.Window]
	room := func(wait time.Duration) bool {
		return fill-limit*wait.Milliseconds()+of(r.Estimate, d.Window)*minute <= limit*minute
	}
	if !room(d.Wait) || room(d.Wait-time.Millisecond) {
		t.Fatalf("wait of %v for %+v: the bucket holds %d", d.Wait, r, fill)
	}
}

// settle settles some calls at once, as a Queue does; the same one may be among them twice.
func (m *machine) settle(t *rapid.T) {
	var all []budget.Settlement
	var want []budget.Outcome
	for range rapid.IntRange(1, 5).Draw(t, "settlements") {
		id := fmt.Sprintf("unknown%d:1", rapid.IntRange(0, 9).Draw(t, "unknown"))
		if len(m.ids) > 0 && !rapid.Bool().Draw(t, "whether unknown") {
			id = m.anyID(t)
		}
		s := budget.Settlement{Ticket: budget.Ticket{Tenant: tenant, ID: id}, Actual: amounts(900).Draw(t, "actual")}
		all, want = append(all, s), append(want, m.model.settleID(id, s.Actual))
	}
	got, err := m.subject.Ledger.Settle(t.Context(), all...)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("settle %+v: got %v, %v, want %v", all, got, err, want)
	}
}

func (m *machine) renew(t *rapid.T) {
	id, lease := m.anyID(t), 30*time.Second
	want := m.model.renew(m.now(), id, lease)
	got, err := m.subject.Ledger.Renew(t.Context(), budget.Ticket{Tenant: tenant, ID: id}, lease)
	if err != nil || got != want {
		t.Fatalf("renew %s: got %v, %v, want %v", id, got, err, want)
	}
}

func (m *machine) time(t *rapid.T) {
	m.clock.Add(rapid.SampledFrom([]time.Duration{
		time.Millisecond, 333 * time.Millisecond, 7 * time.Second, 61 * time.Second, time.Hour, 12 * time.Hour, 32 * 24 * time.Hour,
	}).Draw(t, "passes"))
}

func (m *machine) setClock(t *rapid.T) {
	m.clock.Add(rapid.SampledFrom([]time.Duration{-time.Second, -time.Hour, time.Hour}).Draw(t, "step"))
}

func (m *machine) crash(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip("it takes long")
	}
	if m.subject.Disturb != nil {
		m.subject.Disturb()
	}
	if m.subject.Restart == nil {
		return
	}
	m.subject.Ledger = m.subject.Restart()
	if m.subject.Charges {
		m.model.restart()
	}
}

// check compares the usage under one set of limits, not always, as that charges leases
// which the next call could.
func (m *machine) check(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
		return
	}
	limits := limitSets[len(m.ids)%len(limitSets)]
	want := m.model.usage(m.now(), limits)
	got, err := m.subject.Ledger.Usage(t.Context(), tenant, limits)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("usage: %s", diff)
	}
}

// sameReservation compares tickets without what only their ledger knows.
func sameReservation(a, b budget.Ticket) bool {
	a.Mark, b.Mark = 0, 0
	return a == b
}
