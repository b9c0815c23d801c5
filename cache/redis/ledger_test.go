package redis_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// ledger opens a working ledger on db with a clock; nil means one that stands still, so that no
// test depends on the time of day.
func ledger(t testing.TB, db *redis.DB, clock *budgettest.Clock) *redis.Ledger {
	t.Helper()
	if clock == nil {
		clock = budgettest.NewClock()
	}
	return workingLedger(t, db.Ledger("budgets", redis.LedgerOptions{Now: clock.Now}))
}

func workingLedger(t testing.TB, l *redis.Ledger) *redis.Ledger {
	t.Helper()
	select {
	case <-l.Asked():
	case <-t.Context().Done():
		t.Fatal("nobody asked")
	}
	await(t, "the ledger to work", func() bool { return !l.Open() })
	return l
}

// Rows R13, R21, R22, P7: any sequence of calls, clock changes, forgotten scripts and killed
// replicas gives the same counts as the model.
func TestLedgerMachine(t *testing.T) {
	server := redistest.Start(t)
	db := open(t, redis.Options{URL: server.URL(), Timeout: patient})
	budgettest.Machine(t, func(_ *rapid.T, clock *budgettest.Clock) budgettest.Subject {
		server.Do("FLUSHALL")
		return budgettest.Subject{
			Ledger:  ledger(t, db, clock),
			Restart: func() budgettest.Full { return ledger(t, db, clock) },
			Disturb: func() { server.Do("SCRIPT", "FLUSH") },
		}
	})
}

// Without a test clock the ledger uses the clock of the Redis.
func TestLedgerTime(t *testing.T) {
	server := redistest.Start(t)
	l := workingLedger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}).Ledger("budgets", redis.LedgerOptions{}))
	before := time.Now().UTC().Truncate(24 * time.Hour)
	u, err := l.Usage(t.Context(), "acme", budget.Limits{})
	if after := time.Now().UTC(); err != nil || u.Day.Start.Before(before) || u.Day.Start.After(after) || !u.Day.End.After(u.Day.Start) {
		t.Errorf("got %+v, %v, want the day of %v", u.Day, err, after)
	}
	r := tokensOf("acme", "r1:1", 5, budget.Limits{budget.RequestsPerMinute: 1})
	r.Lease = 50 * time.Millisecond
	if d, err := l.Reserve(t.Context(), r); err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	await(t, "the lease to end", func() bool {
		u, err := l.Usage(t.Context(), "acme", budget.Limits{})
		return err == nil && u.Parallel == 0
	})
}
