package redis_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// Four replicas with 256 concurrent requests each share a budget for a fraction of them. It is
// exceeded only by what calls use beyond their own estimates; while demand continues it is used up
// to less than one estimate; nothing stays held, although a replica is killed (row P7).
func TestOneBudgetForManyReplicas(t *testing.T) {
	const limit, estimate = 20_000, 100
	server, clock := redistest.Start(t), budgettest.NewClock()
	var replicas []*redis.Ledger
	for range 4 {
		replicas = append(replicas, ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: 4 * patient}), clock))
	}
	limits := budget.Limits{budget.TokensPerDay: limit}
	var beyond, granted atomic.Int64 // of all rounds
	round := func(n, each int, settle func(replica int) bool) (held int64) {
		var all sync.WaitGroup
		var tickets sync.Map
		for r, l := range replicas {
			for i := range each {
				all.Go(func() {
					id := fmt.Sprintf("round%d-replica%d-%d:1", n, r, i)
					d, err := l.Reserve(t.Context(), tokensOf("acme", id, estimate, limits))
					if err != nil {
						t.Error(err)
					}
					if d.Granted {
						tickets.Store(d.Ticket, r)
						granted.Add(1)
					}
				})
			}
		}
		all.Wait() // all hold their grants at the same time
		i := 0
		tickets.Range(func(ticket, r any) bool {
			if i++; !settle(r.(int)) {
				held += estimate
				return true
			}
			actual := int64(60)
			if i%10 == 0 {
				actual = 130
				beyond.Add(actual - estimate)
			}
			s := budget.Settlement{Ticket: ticket.(budget.Ticket), Actual: budget.Amount{Requests: 1, Tokens: actual}}
			all.Go(func() {
				if got, err := replicas[r.(int)].Settle(t.Context(), s); err != nil || got[0] != budget.Settled {
					t.Errorf("settle: %v, %v", got, err)
				}
			})
			return true
		})
		all.Wait()
		return held
	}
	held := round(0, 256, func(replica int) bool { return replica != 0 }) // replica 0 is killed
	if n := granted.Load(); n != limit/estimate {
		t.Errorf("%d of 1,024 were granted, want %d", n, limit/estimate)
	}
	if _, now := day(t, replicas[1]); now != held {
		t.Errorf("%d are held, want the %d of the replica that was killed", now, held)
	}
	clock.Add(time.Minute)
	for n, before := 1, int64(-1); granted.Load() != before; n++ {
		before = granted.Load()
		round(n, 64, func(int) bool { return true })
	}
	spent, now := day(t, replicas[1])
	if now != 0 || spent > limit+beyond.Load() || spent <= limit-estimate {
		t.Errorf("%d spent and %d held, want %d to %d and none", spent, now, limit-estimate+1, limit+beyond.Load())
	}
}

// A call that finds all connections in use waits for one within its time: no call is refused
// because others came first.
func TestLedgerWaitsForAConnection(t *testing.T) {
	t.Parallel()
	fault := redistest.NewFault(t, redistest.Start(t).Addr())
	l := ledger(t, open(t, redis.Options{URL: "redis://" + fault.Addr(), PoolSize: 1, Timeout: 8 * time.Second}), nil)
	asks(t, l, "first:1", 1, tokensADay) // so that the script is known
	fault.Latency(220*time.Millisecond, 0)
	var all sync.WaitGroup
	for i := range 20 { // the last one waits 4.4 s; the pool timeout is 4 s
		all.Go(func() {
			d, err := l.Reserve(t.Context(), tokensOf("acme", fmt.Sprintf("r%d:1", i), 1, tokensADay))
			if err != nil || !d.Granted {
				t.Errorf("%d: %+v, %v", i, d, err)
			}
		})
	}
	all.Wait()
	if _, held := day(t, l); held != 21 {
		t.Errorf("%d held, want 21", held)
	}
}

// A call to a slow Redis, and one whose connection is lost, is answered within the timeout, and
// holds its reservation only once.
func TestLedgerOnASlowRedis(t *testing.T) {
	server := redistest.Start(t)
	fault := redistest.NewFault(t, server.Addr())
	l := ledger(t, open(t, redis.Options{URL: "redis://" + fault.Addr(), Timeout: patient}), nil)
	asks(t, l, "r0:1", 1, tokensADay)
	fault.Latency(20*redis.DefaultTimeout/10, redis.DefaultTimeout/2)
	asks(t, l, "r1:1", 1, tokensADay)
	fault.Latency(0, 0)
	fault.Reset()
	asks(t, l, "r2:1", 1, tokensADay)
	server.Kill()
	server.Restart()
	server.Do("FLUSHALL") // its reservations do not matter here
	asks(t, l, "r3:1", 1, tokensADay)
	if d := asks(t, l, "r3:1", 1, tokensADay); !d.Granted {
		t.Errorf("again: %+v", d)
	}
}
