package redis_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// A pair is a reservation under all limits and its settlement, over loopback.
func pair(b *testing.B, l budget.Ledger, n int64) {
	b.Helper()
	r := tokensOf(fmt.Sprint("tenant-", n%100), fmt.Sprintf("01J9ZQ3V5W%016d:1", n), 1000, budget.Limits{
		1e9, 1e10, 1e10, 1e15, 1e15, 1e15, 1e15, 1e6,
	})
	r.Estimate.Injected, r.Estimate.Money = 100, 5000
	d, err := l.Reserve(b.Context(), r)
	if err != nil || !d.Granted {
		b.Error(d, err)
		return
	}
	if _, err := l.Settle(b.Context(), budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Requests: 1, Tokens: 800, Money: 4000}}); err != nil {
		b.Error(err)
	}
}

func benchLedger(b *testing.B) (*redistest.Server, *redis.Ledger) {
	b.Helper()
	server := redistest.Start(b, "--appendonly", "yes", "--appendfsync", "everysec")
	return server, workingLedger(b, open(b, redis.Options{URL: server.URL(), Timeout: patient, PoolSize: 64}).Ledger("budgets", redis.LedgerOptions{}))
}

// Settlements are sent in batches in the background, as by Queue.
func BenchmarkLedgerSaturated(b *testing.B) {
	server, l := benchLedger(b)
	var n atomic.Int64
	q := budget.NewQueue(l, budget.QueueOptions{Entries: 1 << 30})
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			r := tokensOf(fmt.Sprint("tenant-", i%100), fmt.Sprintf("01J9ZQ3V5W%016d:1", i), 1000, budget.Limits{
				1e9, 1e10, 1e10, 1e15, 1e15, 1e15, 1e15, 1e6,
			})
			d, err := l.Reserve(b.Context(), r)
			if err != nil || !d.Granted {
				b.Error(d, err)
				return
			}
			q.Settle(budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Requests: 1, Tokens: 800, Money: 4000}})
		}
	})
	q.Close(b.Context())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	reportScripts(b, server)
}

// Starts a thousand pairs a second, whether or not the previous ones have ended.
func BenchmarkLedgerOffered(b *testing.B) {
	server, l := benchLedger(b)
	var all sync.WaitGroup
	took := make([]time.Duration, b.N)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range b.N {
		<-tick.C
		all.Go(func() {
			start := time.Now()
			pair(b, l, int64(i))
			took[i] = time.Since(start)
		})
	}
	all.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	reportScripts(b, server)
}

var scriptTime = regexp.MustCompile(`latency_percentiles_usec_evalsha:p50=([0-9.]+),p99=([0-9.]+)`)

var cpuTime = regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`)

// reportScripts reports how long scripts took within Redis.
func reportScripts(b *testing.B, server *redistest.Server) {
	b.Helper()
	m := scriptTime.FindStringSubmatch(server.Do("INFO", "latencystats"))
	used := 0.0
	for _, m := range cpuTime.FindAllStringSubmatch(server.Do("INFO", "cpu"), -1) {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil {
			used += n
		}
	}
	b.ReportMetric(used*1e6/float64(b.N), "redis-cpu-µs/pair") // not affected by other processes
	if m == nil {
		return // an older Redis
	}
	for i, name := range []string{"script-p50-µs", "script-p99-µs"} {
		if n, err := strconv.ParseFloat(m[i+1], 64); err == nil {
			b.ReportMetric(n, name)
		}
	}
}
