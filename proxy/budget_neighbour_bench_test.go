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
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
)

// BenchmarkNoisyNeighbour sends 100 requests/s of a quiet tenant, in rounds of a second, with and
// without a noisy tenant that sends ten times its limit of 100 requests/s. It reports the 99th
// percentiles of the quiet tenant: at most twice is wanted, on idle cores; other load lengthens
// the waits of whoever computes more. (P13)
func BenchmarkNoisyNeighbour(b *testing.B) {
	ledger := budget.NewMemory(nil)
	counted := budget.NewMeter(ledger, ledger, settleNow{ledger}, reporttest.NewMetrics().NewBudgets())
	addr := benchServerTo(b, `{"usage":{"prompt_tokens":1000,"completion_tokens":12,"total_tokens":1012}}`, func(cfg *proxy.Config) {
		name := func(name string, limits budget.Limits) tenant.Key {
			p := *cfg.Tenants.Unknown
			p.Tenant, p.Budget.Limits = name, limits
			p.Metered = p.Budget.Tokens()
			return tenant.Key{SHA256: sha256.Sum256([]byte(name + "-key")), Policy: &p}
		}
		cfg.Budgets = counted
		cfg.Tenants = tenant.Tenants{Keys: []tenant.Key{
			name("quiet", budget.Limits{budget.TokensPerDay: 1e15}),
			name("noisy", budget.Limits{budget.RequestsPerMinute: 6000, budget.TokensPerDay: 1e15}),
		}}
	})
	body := `{"model":"gpt-4o","max_tokens":16,"messages":[{"role":"user","content":"` + strings.Repeat("a question ", 90) + `"}]}`
	request := func(name string) []byte {
		return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer %s-key\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body)
	}
	const interval = 10 * time.Millisecond
	// offer sends for a second, one request per interval after first, and returns the latencies.
	offer := func(c *benchClient, request []byte, first time.Duration) (took []float64) {
		<-time.After(first)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for end := time.Now().Add(time.Second); time.Now().Before(end); <-tick.C {
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
		noisy[0].ask(b, request("noisy")) // use up the burst of its limit
	}
	draw := rand.New(rand.NewPCG(13, 0))
	var alone, beside []float64
	for b.Loop() {
		alone = append(alone, offer(quiet, request("quiet"), 0)...)
		var all sync.WaitGroup
		for _, c := range noisy {
			first := time.Duration(draw.Int64N(int64(interval))) // a random phase
			all.Go(func() { offer(c, request("noisy"), first) })
		}
		beside = append(beside, offer(quiet, request("quiet"), 0)...)
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
