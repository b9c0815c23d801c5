package proxy_test

import (
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite/goldentest"
)

// Each rung of the ladder, and the request sent on it, byte for byte. The limits leave room for
// just that rung: the rules take 297 tokens, and each source about 380.
func TestBudgetLadder(t *testing.T) {
	ladder := budget.Rungs()
	for name, c := range map[string]struct {
		injected int64
		ladder   []budget.Rung
		rung     budget.Rung // "": none
		status   string      // prefix of the status
		sources  int
	}{
		"whole":           {2200, ladder, "", "injected; sources=5;", 5},
		"fewer_sources":   {1950, ladder, budget.FewerSources, "injected; ladder=fewer_sources; sources=4;", 4},
		"shorter_sources": {1000, ladder, budget.ShorterSources, "injected; ladder=shorter_sources; sources=1;", 1},
		"no_sources":      {100, ladder, budget.NoSources, "untouched; reason=limit; ladder=no_sources", 0},
		"order":           {1400, []budget.Rung{budget.NoSources, budget.FewerSources}, budget.NoSources, "untouched; reason=limit; ladder=no_sources", 0},
		"no_ladder":       {1400, nil, budget.RefuseRung, "refused; reason=quota", 0},
		"not_reached":     {100, []budget.Rung{budget.FewerSources, budget.ShorterSources}, budget.RefuseRung, "refused; reason=quota", 0},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answerJSON(`{"usage":{"prompt_tokens":900,"completion_tokens":10}}`))
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, only(budget.InjectedPerDay, c.injected), func(p *tenant.Policy) {
				p.Rewrite.Knowledge, p.Budget.Ladder, p.RetryTooLong = []string{"kb-acme"}, c.ladder, true
			}), retrieval.Func(fiveSources))
			resp, _ := g.post(t, chatBody)
			if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, c.status) {
				t.Errorf("status %s, want %s", got, c.status)
			}
			r := g.reports.next(t)
			if c.rung == budget.RefuseRung {
				if resp.StatusCode != 429 || len(u.seen) > 0 || r.Budget.Rung != "" {
					t.Errorf("%d, %+v", resp.StatusCode, r.Budget)
				}
				return
			}
			if r.Budget.Rung != string(c.rung) || r.Sources() != c.sources || r.Budget.Estimate.Injected > c.injected {
				t.Errorf("%+v, %d sources", r.Budget, r.Sources())
			}
			for _, rung := range budget.Rungs() {
				want := 0.0
				if rung == c.rung {
					want = 1
				}
				if n := reporttest.Count(t, b.metrics, "sidenote_budget_ladder_total", string(rung)); n != want {
					t.Errorf("%s counted %v", rung, n)
				}
			}
			body := u.next(t).body
			if want := wholeCost(t, body); r.Budget.Estimate.Tokens != int64(want+1000) {
				t.Errorf("reserved %d tokens, %d went up", r.Budget.Estimate.Tokens, want)
			}
			goldentest.Text(t, "testdata/ladder/"+name+".json", body+"\n")
		})
	}
}
