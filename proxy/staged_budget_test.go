package proxy_test

import (
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Each call of a chain is charged by its reported usage, as kind stage, and all of them count as
// one request of the client.
func TestStagedIsSettled(t *testing.T) {
	const each = 15 // tokens that a call reports
	for name, c := range map[string]struct {
		stage          int // the one that fails; 0: none
		stages, others int64
	}{
		"all":              {0, 4, 0},
		"the first fails":  {1, 0, 1},
		"the second fails": {2, 1, 1},
		"the third fails":  {3, 2, 0},
		"the last fails":   {4, 3, 0},
	} {
		for _, body := range []string{weeksBody, weeksStream} {
			b := newTill(t)
			g := openStaged(t, b, newUpstream(t, plays(c.stage, whole("500 Oh\r\nContent-Type: application/json", `{"error":{"message":"down"}}`))), stagedTerms{})
			if c.stage == 0 {
				g = openStaged(t, b, newUpstream(t, plays(-1, nil)), stagedTerms{})
			}
			p := g.plays(t, body)
			if p.status != 200 || p.err != nil {
				t.Fatalf("%s: %d %s", name, p.status, p.body)
			}
			if body == weeksStream && strings.Contains(p.body, `"usage":{`) {
				t.Errorf("%s: the client did not ask what was used: %s", name, p.body)
			}
			r := g.reports.next(t)
			day := b.usage(t).Day
			if day.Spent.Requests != 1 || day.Spent.Tokens != each*(c.stages+c.others) || day.Kinds[budget.Stage].Tokens != each*c.stages || day.Kinds[budget.Chat].Tokens != each*c.others {
				t.Errorf("%s: spent %+v, by kind %+v", name, day.Spent, day.Kinds)
			}
			if r.Budget.Charged.Tokens != day.Spent.Tokens || r.Usage.Output != 5*(c.stages+c.others) {
				t.Errorf("%s: report %+v, %+v", name, r.Budget, r.Usage)
			}
		}
	}
}

// If the budget has no room for a stage, a rung of the ladder leaves the stages out, before the
// first one; otherwise the stage fails. Budget is also reserved for the call that replaces the
// stages.
func TestStagedLimits(t *testing.T) {
	rungs := []budget.Rung{budget.NoStages}
	for name, c := range map[string]struct {
		stage  int // the one that exceeds the limit, from 1
		limit  int64
		refuse bool
		ladder []budget.Rung
		status int
		told   string
		text   string
	}{
		"the first":                {1, 4000, false, nil, 200, "injected; stages=1; failed=evidence_evaluator; failure=budget; sources=3; ", said(0)},
		"the first, refusing":      {1, 4000, true, nil, 429, "refused; reason=quota", ""},
		"the first, with a ladder": {1, 4000, true, rungs, 200, "injected; ladder=no_stages; sources=3; ", said(0)},
		"anything":                 {1, 500, false, rungs, 429, "refused; reason=quota", ""},
		"the third":                {3, 4000, false, nil, 200, "staged; stages=3; failed=critical_reviewer; failure=budget; answered=answer_generator; ", said(2)},
		"the last":                 {4, 4000, false, rungs, 200, "staged; stages=4; failed=final_assembler; failure=budget; answered=answer_generator; ", said(2)},
	} {
		for _, body := range []string{weeksBody, weeksStream} {
			t.Run(name, func(t *testing.T) {
				terms := stagedTerms{}
				terms.Stages = fourStages()
				terms.Stages[c.stage-1].MaxTokens, terms.RefuseOnFailure = 50_000, c.refuse
				b := newTill(t)
				policy := limited(t, only(budget.TokensPerDay, c.limit), func(p *tenant.Policy) {
					p.Rewrite.Knowledge, p.OutputCap, p.Budget.Ladder = []string{"kb-acme"}, 10_000, c.ladder
					inStages(t, p, terms)
				})
				u := newUpstream(t, plays(-1, nil))
				g := openLimited(t, b, u, policy, retrieval.Func(staff{}.Retrieve))
				if c.stage == 1 {
					body = strings.Replace(body, "{", `{"max_completion_tokens":100,`, 1)
				}
				p := g.plays(t, body)
				if p.status != c.status || p.err != nil || !strings.HasPrefix(p.told(), c.told) || !strings.Contains(p.body, c.text) {
					t.Errorf("%d %s, %v: %s", p.status, p.told(), p.err, p.body)
				}
				if r := g.reports.next(t); c.status == 429 && (r.Outcome != rewrite.Refused || r.Reason != report.ReasonQuota || len(u.seen) > 0) {
					t.Errorf("%s %s, %d requests went up", r.Outcome, r.Reason, len(u.seen))
				}
			})
		}
	}
}

// A chat without stages, because the budget has no room for them, is sent as mode inject sends it,
// with a limit of the answer that fits into the window together with the prompt, and is charged as
// a chat.
func TestLoweredIsInjected(t *testing.T) {
	body := strings.Replace(weeksBody, "leave?", "leave?"+strings.Repeat(" Please.", 700), 1)
	sent := func(status string, change func(*tenant.Policy)) string {
		u, b := newUpstream(t, plays(-1, nil)), newTill(t)
		policy := limited(t, only(budget.TokensPerDay, 10_000), func(p *tenant.Policy) {
			p.Rewrite.Knowledge, p.OutputCap, p.Budget.Ladder = []string{"kb-acme"}, 0, []budget.Rung{budget.NoStages}
			change(p)
		})
		g := startWith(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policy}, Budgets: b.meter,
		}, &rewrite.Rewriter{Retriever: retrieval.Func(staff{}.Retrieve), Models: smallModel{}})
		if p := g.plays(t, body); !strings.HasPrefix(p.told(), status) {
			t.Fatal(p.told())
		}
		g.reports.next(t)
		if kinds := b.usage(t).Day.Kinds; len(kinds) != 1 || kinds[budget.Chat].Requests != 1 {
			t.Errorf("%s is charged as %v", status, kinds)
		}
		return u.next(t).body
	}
	terms := stagedTerms{}
	terms.Stages = fourStages()
	terms.Stages[0].MaxTokens = 50_000
	want := sent("injected; sources", func(*tenant.Policy) {})
	if got := sent("injected; ladder=no_stages; ", func(p *tenant.Policy) { inStages(t, p, terms) }); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(want, `"max_tokens":2114,`) {
		t.Errorf("no limit is fitted: %s", want)
	}
}
