package proxy_test

import (
	"strconv"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// A settlerSpend settles at once.
type settlerSpend struct{ ledger *budget.Memory }

func (s settlerSpend) Settle(one budget.Settlement) {
	if _, err := s.ledger.SettleNow(one); err != nil {
		panic(err)
	}
}

// BenchmarkSpend reserves and settles one request in process: at most 5 µs are wanted.
func BenchmarkSpend(b *testing.B) {
	ledger := budget.NewMemory(nil)
	m := budget.NewMeter(ledger, ledger, settlerSpend{ledger}, reporttest.NewMetrics().NewBudgets())
	body, err := rewrite.ReadMetered(rewrite.MeteredChat, []byte(`{"model":"m","max_tokens":10,"messages":[]}`))
	if err != nil {
		b.Fatal(err)
	}
	terms := &budget.Terms{Limits: budget.Limits{budget.RequestsPerMinute: budget.MaxPerMinute, budget.TokensPerDay: budget.MaxCount, budget.ParallelRequests: 10}}
	ended := &report.Report{
		Client: report.ClientCompleted, Calls: []report.Call{{Status: 200}},
		Usage: answer.Usage{Input: 5, Output: 5, Known: true}, UsageFound: answer.UsageFound,
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		r := proxy.SpendRequest{Tenant: "acme", ID: strconv.Itoa(n), Route: route.Chat, Body: body}
		s, _, err := proxy.ReserveCall(b.Context(), m, terms, r, proxy.Demand{Prompt: 5}, nil)
		if err != nil {
			b.Fatal(err)
		}
		s.Settle(ended)
	}
}

// A rung reduces a policy as its name says, and never removes the last source.
func TestOnRung(t *testing.T) {
	for rung, want := range map[budget.Rung][3]int{
		budget.FewerSources: {4, 1001, 1}, budget.ShorterSources: {4, 501, 1}, budget.NoSources: {7, 2001, 0}, budget.RefuseRung: {7, 2001, 1},
	} {
		p := rewrite.Policy{ContextTokens: 2001, Knowledge: []string{"a"}}
		p.Search.TopK = 7
		p = proxy.OnRung(p, rung)
		if got := [3]int{p.Search.TopK, p.ContextTokens, len(p.Knowledge)}; got != want {
			t.Errorf("%s: %v, want %v", rung, got, want)
		}
	}
	one := rewrite.Policy{ContextTokens: 1}
	one.Search.TopK = 1
	if p := proxy.OnRung(one, budget.ShorterSources); p.Search.TopK != 1 || p.ContextTokens != 1 {
		t.Errorf("%+v", p)
	}
}
