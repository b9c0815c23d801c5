//go:build unix

package proxy_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/meter"
	"sidenote/proxy/metrics/metricstest"
)

// BenchmarkNoisyNeighbour offers 100 requests/s of a quiet tenant, in rounds of a second each,
// with and without a noisy one that offers ten times what its limit of 100 requests/s grants.
// It reports the 99th percentiles of the quiet tenant: at most twice is wanted, on cores that
// nobody else uses; others lengthen the waits of whoever computes more. (P13)
func BenchmarkNoisyNeighbour(b *testing.B) {
	ledger := budget.NewMemory(nil)
	counted := meter.New(ledger, ledger, settleNow{ledger}, metricstest.New().NewBudgets())
	addr := benchServerTo(b, `{"usage":{"prompt_tokens":1000,"completion_tokens":12,"total_tokens":1012}}`, func(cfg *proxy.Config) {
		tenant := func(name string, limits budget.Limits) proxy.Key {
			p := *cfg.Tenants.Unknown
			p.Tenant, p.Budget.Limits = name, limits
			p.Metered = p.Budget.Tokens()
			return proxy.Key{SHA256: sha256.Sum256([]byte(name + "-key")), Policy: &p}
		}
		cfg.Budgets = counted
		cfg.Tenants = proxy.Tenants{Keys: []proxy.Key{
			tenant("quiet", budget.Limits{budget.TokensPerDay: 1e15}),
			tenant("noisy", budget.Limits{budget.RequestsPerMinute: 6000, budget.TokensPerDay: 1e15}),
		}}
	})
	body := `{"model":"gpt-4o","max_tokens":16,"messages":[{"role":"user","content":"` + strings.Repeat("a question ", 90) + `"}]}`
	request := func(tenant string) []byte {
		return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer %s-key\r\nContent-Length: %d\r\n\r\n%s", tenant, len(body), body)
	}
	// offer sends for a second, at times of its own that are an interval apart on average, and
	// returns how long the answers took.
	offer := func(c *benchClient, draw *rand.Rand, request []byte, interval time.Duration) (took []float64) {
		wait := func() { time.Sleep(time.Duration(draw.Float64() * 2 * float64(interval))) }
		for end := time.Now().Add(time.Second); time.Now().Before(end); wait() {
			began := time.Now()
			c.ask(b, request)
			took = append(took, float64(time.Since(began).Microseconds()))
		}
		return took
	}
	quiet := dialBench(b, addr)
	var noisy []*benchClient
	for range 10 {
		noisy = append(noisy, dialBench(b, addr))
	}
	for range 6000 {
		noisy[0].ask(b, request("noisy")) // what its limit grants at once
	}
	var draws []*rand.Rand // the callers know nothing of one another
	for i := range uint64(11) {
		draws = append(draws, rand.New(rand.NewPCG(13, i)))
	}
	var alone, beside []float64
	for b.Loop() {
		alone = append(alone, offer(quiet, draws[0], request("quiet"), 10*time.Millisecond)...)
		var all sync.WaitGroup
		for i, c := range noisy {
			all.Go(func() { offer(c, draws[1+i], request("noisy"), 10*time.Millisecond) })
		}
		beside = append(beside, offer(quiet, draws[0], request("quiet"), 10*time.Millisecond)...)
		all.Wait()
	}
	p99 := func(took []float64) float64 {
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	b.ReportMetric(p99(alone), "alone-p99-µs")
	b.ReportMetric(p99(beside), "beside-p99-µs")
	b.ReportMetric(p99(beside)/p99(alone), "ratio")
}
