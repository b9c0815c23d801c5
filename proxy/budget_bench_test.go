//go:build unix

package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/report/reporttest"
)

// BenchmarkLimited alternates between a tenant without limits and one with limits, and reports the
// CPU time that limits add to a request: at most 5 µs are wanted. With limits, the whole request
// is counted, and it is capped, reserved and settled. The upstream reports usage, or not, so that
// the text of its answer is counted. The times are the process's CPU time, including the client's
// and the upstream's, in the best tenth of the rounds.
func BenchmarkLimited(b *testing.B) {
	const told = `,"usage":{"prompt_tokens":1000,"completion_tokens":12,"total_tokens":1012}`
	for name, usage := range map[string]string{"told": told, "untold": ""} {
		b.Run(name, func(b *testing.B) {
			answer := `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("an answer ", 60) + `"}}]` + usage + `}`
			ledger := budget.NewMemory(nil)
			counted := budget.NewMeter(ledger, ledger, settleNow{ledger}, reporttest.NewMetrics().NewBudgets())
			dial := func(limits budget.Limits) *benchClient {
				return dialBench(b, benchServerTo(b, answer, func(cfg *proxy.Config) {
					p := cfg.Tenants.Unknown
					p.Budget.Limits = limits
					p.Metered, cfg.Budgets = p.Budget.Tokens(), counted
				}))
			}
			compare(b, dial(budget.Limits{}), dial(budget.Limits{
				budget.RequestsPerMinute: 1e7, budget.TokensPerMinute: 1e10, budget.TokensPerDay: 1e15, budget.ParallelRequests: 10,
			}))
		})
	}
}

// A settleNow settles in the in-memory ledger before the next request is read.
type settleNow struct{ ledger *budget.Memory }

func (s settleNow) Settle(one budget.Settlement) {
	if _, err := s.ledger.SettleNow(one); err != nil {
		panic(err)
	}
}

// compare lets both clients send blocks of requests in turn.
func compare(b *testing.B, free, limited *benchClient) {
	b.Helper()
	body := `{"model":"gpt-4o","max_tokens":16,"messages":[{"role":"user","content":"` + strings.Repeat("a question ", 90) + `"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%sContent-Length: %d\r\n\r\n%s", benchLines, len(body), body)
	const block = 20
	var works [2][]float64
	for n := 0; b.Loop(); n++ {
		clients := [2]*benchClient{free, limited}
		for i := range 2 {
			i ^= n & 1 // alternate which one is first
			used := processTime(b)
			for range block {
				clients[i].ask(b, request)
			}
			works[i] = append(works[i], float64(processTime(b)-used)/block)
		}
	}
	for i := range works {
		slices.Sort(works[i])
	}
	least := len(works[0]) / 10 // slower rounds shared their cores with other processes
	b.ReportMetric(works[0][least], "ns-free/request")
	b.ReportMetric(works[1][least]-works[0][least], "ns-added/request")
}

// processTime returns the CPU time that the process has used.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A benchClient sends sequential requests and allocates nothing.
type benchClient struct {
	conn    net.Conn
	answers *bufio.Reader
}

func dialBench(b *testing.B, addr string) *benchClient {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &benchClient{c, bufio.NewReader(c)}
}

func (c *benchClient) ask(b *testing.B, request []byte) {
	if _, err := c.conn.Write(request); err != nil {
		b.Fatal(err)
	}
	if err := skipBench(c.answers, []byte("Content-Length: ")); err != nil {
		b.Fatal(err)
	}
}
