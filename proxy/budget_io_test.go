//go:build linux

package proxy_test

import (
	"fmt"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// Whichever read or write of any connection fails or panics, each reservation is settled once, for
// no more than was reserved.
func TestBudgetWhateverIOFails(t *testing.T) {
	with := talks()
	for _, name := range []string{"chat", "streamed"} {
		for _, side := range []string{"client", "upstream"} {
			for _, kind := range []transporttest.Kind{transporttest.Fails, transporttest.Breaks, transporttest.Panics} {
				if side == "client" && kind == transporttest.Panics {
					continue // the server's panics are not recovered
				}
				t.Run(fmt.Sprintf("%s, %s %s", name, side, kind), func(t *testing.T) {
					var fault transporttest.Fault
					var clients, upstreams transport.Raw = fault.Open, nil
					if side == "upstream" {
						clients, upstreams = nil, fault.Open
					}
					b := newTill(t)
					g := start(t, proxy.WithFaults(proxy.Config{
						Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: ioOrigin(t)}},
						Tenants:   tenant.Tenants{Unknown: limited(t, budget.Limits{budget.TokensPerDay: 1e9, budget.ParallelRequests: 1}, nil)},
						Budgets:   b.meter,
					}, clients, upstreams), nil)
					fault.Kind = kind
					for at := int64(0); ; at++ {
						fault.Set(at)
						g.runTalk(t, with[name])
						g.settles(t, 1<<30)
						if !fault.Reached() {
							break
						}
					}
					shutdown(t, g) // now every request is recorded
					var sum budget.Amount
					for len(g.reports) > 0 {
						r := <-g.reports
						c, e := r.Budget.Charged, r.Budget.Estimate
						if c.Tokens > e.Tokens || c.Requests > e.Requests || c.Money > e.Money || c.Tokens > 0 && r.Budget.By == answer.SettledAsNothing {
							t.Errorf("%+v", r.Budget)
						}
						sum.Requests, sum.Tokens, sum.Money = sum.Requests+c.Requests, sum.Tokens+c.Tokens, sum.Money+c.Money
					}
					if got := b.usage(t).Day.Spent; got != sum || sum.Tokens == 0 {
						t.Errorf("spent %+v, want %+v", got, sum)
					}
				})
			}
		}
	}
}
