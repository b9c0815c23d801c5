package proxy_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
)

// A till counts the usage of the tenant "acme", with a fixed clock, and settles at once.
type till struct {
	*budget.Memory
	meter   *budget.Meter
	metrics *report.Metrics
}

// tillTime is far from the end of its day and month.
var tillTime = time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)

// A settler settles at once and records the settlements.
type settler struct {
	ledger budget.Ledger
	mu     sync.Mutex
	failed []string
}

func (s *settler) Settle(one budget.Settlement) {
	got, err := s.ledger.Settle(context.Background(), one)
	if err == nil && got[0] == budget.Settled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = append(s.failed, err.Error())
		return
	}
	s.failed = append(s.failed, string(got[0]))
}

// newTill returns a till that counts in memory. At the end of the test nothing may be held, and
// everything must have been settled once.
func newTill(t *testing.T) *till {
	t.Helper()
	b := &till{Memory: budget.NewMemory(func() time.Time { return tillTime }), metrics: reporttest.NewMetrics()}
	settles := &settler{ledger: b.Memory}
	b.meter = budget.NewMeter(b.Memory, b.Memory, settles, b.metrics.NewBudgets())
	t.Cleanup(func() {
		u := b.usage(t)
		if u.Day.Held != (budget.Amount{}) || u.Month.Held != (budget.Amount{}) || u.Parallel != 0 || u.Expired != 0 || b.meter.Open() != 0 {
			t.Errorf("held: %+v, %d at once, %d expired, %d open", u.Day.Held, u.Parallel, u.Expired, b.meter.Open())
		}
		if len(settles.failed) > 0 {
			t.Errorf("settled: %v", settles.failed)
		}
	})
	return b
}

func (b *till) usage(t *testing.T) budget.Usage {
	t.Helper()
	u, err := b.Memory.Usage(context.Background(), "acme", budget.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// perMillion returns the prices of model m: a dollar per million input tokens is a thousand units
// per token.
func perMillion(t *testing.T) budget.PriceTable {
	t.Helper()
	p, err := budget.ParsePrices("1", "0.50", "2")
	if err != nil {
		t.Fatal(err)
	}
	return budget.PriceTable{{Match: "m", Prices: p}}
}

// plenty returns limits that no test reaches.
func plenty() budget.Limits {
	return budget.Limits{
		budget.RequestsPerMinute: 1e6, budget.TokensPerMinute: 1e9, budget.InjectedPerDay: 1e9, budget.TokensPerDay: 1e9,
		budget.MoneyPerDay: 1e6 * budget.USD, budget.MoneyPerMonth: 1e6 * budget.USD, budget.ParallelRequests: 100,
	}
}

// limited returns a policy whose tenant has limits, with answers of at most 1000 tokens and no
// sources.
func limited(t *testing.T, limits budget.Limits, change func(*tenant.Policy)) *tenant.Policy {
	prices := perMillion(t)
	return policyOf("acme", func(p *tenant.Policy) {
		p.Budget = budget.Terms{Limits: limits, Prices: prices}
		p.Metered, p.OutputCap, p.Rewrite.Knowledge = p.Budget.Tokens(), 1000, nil
		if change != nil {
			change(p)
		}
	})
}

// openLimited opens a rig for a policy whose limits b counts.
func openLimited(t *testing.T, b *till, u *stubUpstream, p *tenant.Policy, r retrieval.Retriever, changes ...func(*proxy.Config)) *rig {
	t.Helper()
	cfg := proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: p},
		Timeouts:  proxy.DefaultTimeouts(),
		Budgets:   b.meter,
	}
	for _, change := range changes {
		change(&cfg)
	}
	return start(t, cfg, r)
}
