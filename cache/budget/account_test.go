package budget_test

import (
	"fmt"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
)

// A rig is a ledger in memory with a clock, and short ways to call it.
type rig struct {
	*testing.T
	*budget.Memory
	clock *budgettest.Clock
}

func newRig(t *testing.T) rig {
	clock := budgettest.NewClock()
	return rig{t, budget.NewMemory(clock.Now), clock}
}

// tokens reserves n tokens for one request.
func (r rig) tokens(id string, n int64, limits budget.Limits) budget.Decision {
	r.Helper()
	d, err := r.Reserve(r.Context(), budget.Reservation{
		Tenant: "acme", ID: id, Kind: budget.Chat, Lease: 2 * time.Minute, Limits: limits,
		Estimate: budget.Amount{Requests: 1, Tokens: n},
	})
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (r rig) settled(id string, tokens int64, want budget.Outcome) {
	r.Helper()
	got, err := r.Settle(r.Context(), budget.Settlement{
		Ticket: budget.Ticket{Tenant: "acme", ID: id}, Actual: budget.Amount{Requests: 1, Tokens: tokens},
	})
	if err != nil || got[0] != want {
		r.Fatalf("settle %s: got %v, %v, want %s", id, got, err, want)
	}
}

func (r rig) usage(limits budget.Limits) budget.Usage {
	r.Helper()
	u, err := r.Usage(r.Context(), "acme", limits)
	if err != nil {
		r.Fatal(err)
	}
	return u
}

// The debt of a bucket is limited to one minute's limit, whatever a call used.
func TestDebtIsCapped(t *testing.T) {
	r, limits := newRig(t), budget.Limits{budget.TokensPerMinute: 1000}
	r.tokens("r1:1", 100, limits)
	r.settled("r1:1", 50_000, budget.Settled)
	d := r.tokens("r2:1", 1, limits)
	if d.Granted || d.Window != budget.TokensPerMinute || d.Wait != time.Minute+60*time.Millisecond {
		t.Errorf("got %+v, want a wait of a minute and the 60 ms of a token", d)
	}
	r.clock.Add(d.Wait)
	if d := r.tokens("r3:1", 1, limits); !d.Granted {
		t.Errorf("after the wait: %+v", d)
	}
}

// What has drained from a bucket meanwhile is not given back a second time.
func TestRefundsAreNotSpentTwice(t *testing.T) {
	r, limits := newRig(t), budget.Limits{budget.TokensPerMinute: 1000}
	r.tokens("r1:1", 1000, limits)
	r.clock.Add(time.Minute)
	if d := r.tokens("r2:1", 1000, limits); !d.Granted {
		t.Fatalf("a minute later: %+v", d)
	}
	r.settled("r1:1", 0, budget.Settled) // a thousand that drained long ago
	if d := r.tokens("r3:1", 1, limits); d.Granted {
		t.Error("2,000 tokens are reserved within a second, of 1,000 a minute")
	}
}

// Amounts held by other calls are not spent: the wait is short, and no call is refused for the
// rest of the day because of them.
func TestHeldIsNotSpent(t *testing.T) {
	r, limits := newRig(t), budget.Limits{budget.TokensPerDay: 1000}
	r.tokens("r1:1", 900, limits)
	if d := r.tokens("r2:1", 200, limits); d.Granted || d.Wait != time.Second {
		t.Errorf("while 900 are held: %+v", d)
	}
	r.settled("r1:1", 850, budget.Settled)
	if d := r.tokens("r3:1", 200, limits); d.Granted || d.Wait != 12*time.Hour {
		t.Errorf("when 850 are spent: %+v, want the time to midnight", d)
	}
	if d := r.tokens("r4:1", 150, limits); !d.Granted || d.Levels[budget.TokensPerDay].Left != 0 {
		t.Errorf("for the last 150: %+v", d)
	}
	if d := r.tokens("r5:1", 1001, limits); d.Granted || !d.Never || d.Wait != 0 {
		t.Errorf("for more than there ever is: %+v", d)
	}
}

// An estimate that takes nothing of a unit is not refused because of it.
func TestWhatTakesNothingIsNotRefused(t *testing.T) {
	r := newRig(t)
	limits := budget.Limits{budget.InjectedPerDay: 1, budget.MoneyPerMonth: 1, budget.TokensPerDay: 10}
	_, err := r.Reserve(t.Context(), budget.Reservation{
		Tenant: "acme", ID: "r1:1", Kind: budget.Chat, Lease: time.Minute, Limits: limits,
		Estimate: budget.Amount{Tokens: 1, Injected: 1, Money: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := r.tokens("r2:1", 5, limits); !d.Granted {
		t.Errorf("without sources and price: %+v", d)
	}
}

// All calls of one request count as one parallel request.
func TestInternalCallsAreNoParallelRequests(t *testing.T) {
	r, limits := newRig(t), budget.Limits{budget.ParallelRequests: 1}
	r.tokens("r1:1", 5, limits)
	d, err := r.Reserve(t.Context(), budget.Reservation{
		Tenant: "acme", ID: "r1:planner", Kind: budget.Planner, Lease: time.Minute, Limits: limits, Estimate: budget.Amount{Tokens: 9},
	})
	if err != nil || !d.Granted {
		t.Fatalf("its planner: %+v, %v", d, err)
	}
	if d := r.tokens("r2:1", 5, limits); d.Granted || d.Window != budget.ParallelRequests {
		t.Fatalf("another one: %+v", d)
	}
	r.settled("r1:1", 5, budget.Settled)
	if d := r.tokens("r3:1", 5, limits); !d.Granted {
		t.Errorf("after it: %+v", d)
	}
}

// Row P7: amounts held by a killed process are charged when their lease expires, by the next call,
// and only once.
func TestLeasesEndP7(t *testing.T) {
	r, limits := newRig(t), budget.Limits{budget.TokensPerDay: 1000, budget.ParallelRequests: 1}
	r.tokens("r1:1", 700, limits)
	r.clock.Add(2*time.Minute - time.Millisecond)
	if d := r.tokens("r2:1", 300, limits); d.Granted {
		t.Fatal("a slot was free before the lease ended")
	}
	r.clock.Add(time.Millisecond)
	d := r.tokens("r3:1", 300, limits)
	if !d.Granted || d.Expired != 1 {
		t.Fatalf("after the lease: %+v", d)
	}
	r.settled("r1:1", 1, budget.Expired)
	r.settled("r3:1", 300, budget.Settled)
	r.settled("r3:1", 300, budget.Repeated)
	u := r.usage(limits)
	if want := (budget.Amount{Requests: 2, Tokens: 1000}); u.Day.Spent != want || u.Day.Held != (budget.Amount{}) || u.Parallel != 0 {
		t.Errorf("got %+v, want %+v spent and nothing held", u, want)
	}
}

// Row P15: days and months are in UTC, also across changes to summer time, and a call belongs to
// the day on which it began.
func TestWindowsAreUTCP15(t *testing.T) {
	berlin := time.FixedZone("CEST", 2*3600)
	now := time.Date(2026, 4, 1, 1, 59, 59, 0, berlin) // 31 March in UTC
	m := budget.NewMemory(func() time.Time { return now })
	r := rig{t, m, nil}
	limits := budget.Limits{budget.TokensPerDay: 1000, budget.MoneyPerMonth: 1}
	d := r.tokens("r1:1", 1000, limits)
	if !d.Granted || d.Levels[budget.TokensPerDay].Reset != time.Second || d.Levels[budget.MoneyPerMonth].Reset != time.Second {
		t.Fatalf("a second before midnight: %+v", d)
	}
	now = now.Add(time.Second)
	if d := r.tokens("r2:1", 400, limits); !d.Granted || d.Levels[budget.MoneyPerMonth].Reset != 30*24*time.Hour {
		t.Errorf("at midnight: %+v", d)
	}
	r.settled("r1:1", 900, budget.Settled)
	u := r.usage(limits)
	if u.Day.Spent.Tokens != 0 || u.Day.Held.Tokens != 400 || u.Month.Spent.Tokens != 0 {
		t.Errorf("the new day has %+v", u)
	}
	now = now.Add(-2 * time.Second)
	if u := r.usage(limits); u.Day.Spent.Tokens != 900 || u.Day.Held.Tokens != 0 {
		t.Errorf("the day before has %+v", u.Day)
	}
}

// Rows R21, R22: a clock that jumps by an hour locks nobody out.
func TestClockStepsR21R22(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		r, limits := newRig(t), budget.Limits{budget.RequestsPerMinute: 2, budget.ParallelRequests: 4}
		r.tokens("r1:1", 5, limits)
		r.tokens("r2:1", 5, limits)
		r.clock.Add(step)
		r.tokens("r3:1", 5, limits) // it may be refused, for at most a minute
		r.clock.Add(time.Minute)
		if d := r.tokens("r4:1", 5, limits); !d.Granted {
			t.Errorf("a minute after a step of %v: %+v", step, d)
		}
		r.clock.Add(time.Minute)
		if u := r.usage(limits); u.Parallel != 1 {
			t.Errorf("two minutes after a step of %v %d are open, want the last one", step, u.Parallel)
		}
	}
}

// Counters stop at the maximum that Redis can count, and calls without limits continue.
func TestCountersDoNotOverflow(t *testing.T) {
	r := newRig(t)
	for i := range 12 {
		id := fmt.Sprintf("r%d:1", i)
		r.tokens(id, 1, budget.Limits{})
		r.settled(id, budget.MaxAmount, budget.Settled)
	}
	limits := budget.Limits{budget.TokensPerDay: budget.MaxCount}
	if u := r.usage(limits); u.Day.Spent.Tokens != budget.MaxCount || u.Levels[budget.TokensPerDay].Left != 0 {
		t.Errorf("got %+v", u)
	}
	if d := r.tokens("more", 1, limits); d.Granted {
		t.Error("granted beyond all that can be counted")
	}
}

// The last 256 settled IDs are not granted again.
func TestSettledIDsAreRemembered(t *testing.T) {
	r := newRig(t)
	for i := range 1000 {
		id := fmt.Sprintf("r%d:1", i)
		r.tokens(id, 1, budget.Limits{})
		r.settled(id, 1, budget.Settled)
		if i < 300 {
			continue
		}
		r.settled(fmt.Sprintf("r%d:1", i-200), 1, budget.Repeated)
		if i%100 == 0 {
			r.tokens(fmt.Sprintf("r%d:1", i-290), 1, budget.Limits{}) // granted: forgotten
			r.settled(fmt.Sprintf("r%d:1", i-290), 1, budget.Settled)
		}
	}
}

// Accounts of idle tenants are dropped.
func TestIdleTenantsVanish(t *testing.T) {
	r := newRig(t)
	ask := func(i int) {
		_, err := r.Reserve(t.Context(), budget.Reservation{Tenant: fmt.Sprint("t", i), ID: "r:1", Kind: budget.Chat, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ticket := budget.Ticket{Tenant: fmt.Sprint("t", i), ID: "r:1"}
		if _, err := r.Settle(t.Context(), budget.Settlement{Ticket: ticket}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1024 {
		ask(i)
	}
	r.clock.Add(62 * 24 * time.Hour)
	ask(1024)
	if n := r.Accounts(); n != 1 {
		t.Errorf("%d accounts are kept, want 1", n)
	}
}
