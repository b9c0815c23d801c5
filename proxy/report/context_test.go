package report_test

import (
	"testing"

	"pgregory.net/rapid"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// measured returns what the usage of an answer has of n added tokens in these parts.
func measured(n int, u answer.Usage, prices *budget.Prices, parts ...rewrite.ContextPart) report.ContextUsage {
	r := reporttest.Injected()
	r.Usage, r.Rewrite.Ledger.Used = u, n
	r.Rewrite.Ledger.Parts = [len(r.Rewrite.Ledger.Parts)]rewrite.ContextPart{}
	copy(r.Rewrite.Ledger.Parts[:], parts)
	r.MeasureContext(prices)
	return r.Context
}

// Upstreams read the beginning of a prompt from their cache and write what follows, so what the
// added tokens cost depends on their position.
func TestAddedTokensByPosition(t *testing.T) {
	f := func(n int, u answer.Usage, want budget.Tokens, parts ...rewrite.ContextPart) {
		t.Helper()
		if got := measured(n, u, nil, parts...); got.Tokens != want || got.Priced || got.Cost != 0 {
			t.Errorf("%d of %+v at %v: got %+v, want %+v", n, u, parts, got, want)
		}
	}
	whole := func(before float64) rewrite.ContextPart { return rewrite.ContextPart{Share: 1, Before: before} }
	u := answer.Usage{Input: 10_000, CachedInput: 4000, CacheWrite: 3000, CacheWrite1h: 1000, Known: true}
	f(1000, u, budget.Tokens{Input: 1000, CachedInput: 1000}, whole(0))                                           // all before the end of the cached part
	f(1000, u, budget.Tokens{Input: 1000, CachedInput: 400, CacheWrite: 600, CacheWrite1h: 600}, whole(.4))       // from 3,600 on
	f(1000, u, budget.Tokens{Input: 1000, CacheWrite: 1000, CacheWrite1h: 500}, whole(.5))                        // from 4,500 on
	f(1000, u, budget.Tokens{Input: 1000, CacheWrite: 700}, whole(.7))                                            // from 6,300 on
	f(1000, u, budget.Tokens{Input: 1000}, whole(1))                                                              // the end
	f(20_000, u, budget.Tokens{Input: 10_000, CachedInput: 4000, CacheWrite: 3000, CacheWrite1h: 1000}, whole(0)) // our count is too high
	f(0, u, budget.Tokens{}, whole(0))
	f(1000, answer.Usage{}, budget.Tokens{}, whole(0))
	// Rules in the system message are cached, the sources in the last message are not.
	f(1000, u, budget.Tokens{Input: 1000, CachedInput: 100}, rewrite.ContextPart{Share: .1, Before: .2}, rewrite.ContextPart{Share: .9, Before: .99})
}

// Answers in stages, requests without sources and usage that cannot be true are not measured.
func TestWhatIsNotMeasured(t *testing.T) {
	f := func(change func(*report.Report)) {
		t.Helper()
		r := reporttest.Injected()
		r.Usage = answer.Usage{Input: 5000, CachedInput: 4000, Known: true}
		r.Rewrite.Ledger.Used, r.Rewrite.Ledger.Parts[0] = 1000, rewrite.ContextPart{Share: 1}
		change(r)
		if r.MeasureContext(nil); r.Context != (report.ContextUsage{}) {
			t.Errorf("%+v", r.Context)
		}
	}
	f(func(r *report.Report) { r.Outcome = rewrite.Shadowed })
	f(func(r *report.Report) { r.Outcome = rewrite.Untouched })
	f(func(r *report.Report) { r.Outcome, r.Stages = report.Staged, &report.Stages{} })
	f(func(r *report.Report) { r.Budget.Implausible = true })
	f(func(r *report.Report) { r.Usage = answer.Usage{} })
}

// The parts add up to the added tokens and never exceed those of the answer, more cached tokens of a
// prompt never make fewer of the added ones cached, and the cost is between the lowest and highest
// price.
func TestAddedTokensAddUp(t *testing.T) {
	prices := &budget.Prices{Input: 1000, CachedInput: 100, CacheWrite: 1250, CacheWrite1h: 2000}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 50_000).Draw(t, "added")
		u := answer.Usage{Input: rapid.Int64Range(1, 60_000).Draw(t, "input"), Known: true}
		u.CachedInput = rapid.Int64Range(0, u.Input).Draw(t, "cached")
		u.CacheWrite = rapid.Int64Range(0, u.Input-u.CachedInput).Draw(t, "written")
		u.CacheWrite1h = rapid.Int64Range(0, u.CacheWrite).Draw(t, "for an hour")
		before := rapid.Float64Range(0, 1).Draw(t, "before")
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		parts := []rewrite.ContextPart{{Share: share, Before: before}, {Share: 1 - share, Before: rapid.Float64Range(before, 1).Draw(t, "behind")}}
		got := measured(n, u, prices, parts...)
		rest := got.Input - got.CachedInput - got.CacheWrite
		if got.Input != min(int64(n), u.Input) || min(got.CachedInput, got.CacheWrite, got.CacheWrite1h, got.CacheWrite-got.CacheWrite1h, rest) < 0 {
			t.Fatalf("%+v", got)
		}
		if got.CachedInput > u.CachedInput || got.CacheWrite > u.CacheWrite || got.CacheWrite1h > u.CacheWrite1h || rest > u.Input-u.CachedInput-u.CacheWrite {
			t.Fatalf("%+v are more than %+v", got, u)
		}
		if !got.Priced && got.Input > 0 || got.Cost < budget.PicoDollars(got.Input)*prices.CachedInput || got.Cost > budget.PicoDollars(got.Input)*prices.CacheWrite1h {
			t.Fatalf("cost %d of %+v", got.Cost, got)
		}
		more := u
		more.CachedInput += rapid.Int64Range(0, u.Input-u.CachedInput-u.CacheWrite).Draw(t, "more")
		if then := measured(n, more, prices, parts...); then.CachedInput < got.CachedInput {
			t.Fatalf("%d more are cached, of the added ones %d instead of %d", more.CachedInput-u.CachedInput, then.CachedInput, got.CachedInput)
		}
	})
}

// The rounds of a chat with tools are measured each and added up.
func TestAddedTokensOfRounds(t *testing.T) {
	r, before := reporttest.Injected(), report.Rounds{}
	prices := &budget.Prices{Input: 1000, CachedInput: 100, CacheWrite: 1000}
	r.Rewrite.Ledger.Used, r.Rewrite.Ledger.Parts[0] = 1000, rewrite.ContextPart{Share: 1, Before: .5}
	for i, u := range []answer.Usage{{Input: 5000, Known: true}, {Input: 6000, CachedInput: 4992, Known: true}} {
		r.UsageFound, r.Usage = answer.UsageFound, u
		r.MeasureContext(prices)
		if i == 0 {
			r.EndRound(&before)
		}
	}
	r.AddRounds(&before)
	if want := (report.ContextUsage{Tokens: budget.Tokens{Input: 2000, CachedInput: 1000}, Cost: 1000*1000 + 1000*100, Priced: true}); r.Context != want {
		t.Errorf("got %+v, want %+v", r.Context, want)
	}
}

// Prompts are counted by tenant, policy and model: what the application sent and what was added, by
// what the upstream's cache did, and the cost.
func TestPromptMetrics(t *testing.T) {
	m := reporttest.NewMetrics()
	record := func(change func(*report.Report)) {
		r := reporttest.Injected()
		r.Tenant, r.Policy, r.Route, r.UsageFound, r.Rewrite.Model.Row = "acme", "base", route.Chat, answer.UsageFound, "gpt-5*"
		r.Usage = answer.Usage{Input: 5000, CachedInput: 3000, CacheWrite: 1500, Output: 10, Known: true}
		r.Context = report.ContextUsage{Tokens: budget.Tokens{Input: 1000, CachedInput: 300, CacheWrite: 600}, Cost: budget.Dollar / 4, Priced: true}
		change(r)
		m.Record(r)
	}
	record(func(*report.Report) {})
	record(func(*report.Report) {})
	record(func(r *report.Report) { r.Outcome, r.Context = rewrite.Untouched, report.ContextUsage{} })
	record(func(r *report.Report) { r.Usage, r.Context = answer.Usage{}, report.ContextUsage{} }) // not reported
	record(func(r *report.Report) { r.Route, r.Outcome = route.Embeddings, report.Relayed })
	want := map[string]float64{
		"app read": 2*2700 + 3000, "app write": 2*900 + 1500, "app none": 2*400 + 500,
		"context read": 600, "context write": 1200, "context none": 200, "cost": .5,
	}
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			name := labels["part"] + " " + labels["cache"]
			switch f.GetName() {
			case "sidenote_prompt_tokens_total":
			case "sidenote_context_cost_usd_total":
				name = "cost"
			default:
				continue
			}
			if got := metric.GetCounter().GetValue(); got != want[name] || labels["tenant"] != "acme" || labels["policy"] != "base" || labels["model"] != "gpt-5*" {
				t.Errorf("%s: got %v, want %v; %v", name, got, want[name], labels)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
}
