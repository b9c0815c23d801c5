package redis_test

import (
	"fmt"
	"slices"
	"testing"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// A batch of settlements for several tenants, with more for one than a script accepts, has the
// same outcomes as single settlements, in order, also if the Redis does not know the script.
func TestLedgerSettlesManyAtOnce(t *testing.T) {
	server := redistest.Start(t)
	clock := budgettest.NewClock()
	shared, own := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), clock), budget.NewMemory(clock.Now)
	limits := budget.Limits{budget.TokensPerDay: 1e9, budget.TokensPerMinute: 1e6}
	var all []budget.Settlement
	for i := range 700 {
		s := budget.Settlement{Ticket: budget.Ticket{Tenant: fmt.Sprint("t", i%3), ID: fmt.Sprintf("r%d:1", i*5/6), Kind: budget.Chat}, Actual: budget.Amount{Requests: 1, Tokens: int64(i)}}
		if i%5 == 0 || i > 500 {
			s.Tenant = "acme"
		}
		if all = append(all, s); i%4 == 0 {
			continue // never reserved
		}
		for _, l := range []budget.Ledger{shared, own} {
			r := tokensOf(s.Tenant, s.ID, 100, limits)
			if d, err := l.Reserve(t.Context(), r); err != nil || !d.Granted {
				t.Fatal(d, err)
			}
		}
	}
	server.Do("SCRIPT", "FLUSH")
	var want []budget.Outcome
	for _, s := range all {
		one, err := own.Settle(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, one...)
	}
	got, err := shared.Settle(t.Context(), all...)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, outcome := range []budget.Outcome{budget.Settled, budget.Repeated, budget.Unknown} {
		if !slices.Contains(want, outcome) {
			t.Errorf("no settlement is %s", outcome)
		}
	}
	for _, tenant := range []string{"t0", "t1", "t2", "acme"} {
		a, err1 := shared.Usage(t.Context(), tenant, limits)
		b, err2 := own.Usage(t.Context(), tenant, limits)
		if err1 != nil || err2 != nil || a.Day.Spent != b.Day.Spent || a.Day.Held != b.Day.Held || a.Levels != b.Levels {
			t.Errorf("%s: %+v, %v, want %+v, %v", tenant, a, err1, b, err2)
		}
	}
}
