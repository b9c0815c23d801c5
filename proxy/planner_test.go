package proxy_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
)

// A planned is a PlanAPI whose model plans.
type planned func(context.Context, services.LLMCall) (services.LLMAnswer, error)

func (p planned) Ask(ctx context.Context, to services.LLMCall, _ services.Prompt) (services.LLMAnswer, error) {
	return p(ctx, to)
}

// Plan does not cache.
func (planned) Plan(ctx context.Context, _ string, _ []string, find func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error) {
	return find(ctx)
}

func plans(text string) planned {
	return func(context.Context, services.LLMCall) (services.LLMAnswer, error) {
		return services.LLMAnswer{Text: text, Usage: services.LLMUsage{Input: 100, Output: 10, Known: true}}, nil
	}
}

// withPlanner returns a configuration whose planners use an API, and a retriever that finds five
// sources.
func withPlanner(p planned, m *budget.Meter) (func(*proxy.Config), retrieval.Retriever) {
	search := &retrieval.Prepare{
		Next: retrieval.Func(fiveSources), HasTerms: func(text string) bool { return strings.TrimSpace(text) != "" },
		Ref:  func(id string) (retrieval.Ref, bool) { return retrieval.Ref{Knowledge: id, Generation: "g"}, true },
		Join: func(string, iter.Seq[string]) []retrieval.Turn { return nil },
	}
	return func(cfg *proxy.Config) {
		cfg.Planners = &proxy.Planners{Upstreams: map[string]proxy.PlanUpstream{"stub": {API: p}}, Plans: p, Models: testModels{}, Meter: m}
	}, search
}

func planner(p *tenant.Policy) {
	p.Rewrite.Knowledge = []string{"kb-acme"}
	p.Rewrite.Planner = retrieval.PlanSettings{Model: "small", MaxQueries: 3, Turns: 3, Timeout: time.Second}
}

// The rung no_planner: if the budget has room for the request but not also for a plan, the request
// is sent without a plan; it is refused, as others are, if the ladder lacks the rung.
func TestBudgetNoPlanner(t *testing.T) {
	const answer = `{"usage":{"prompt_tokens":900,"completion_tokens":10}}`
	for name, c := range map[string]struct {
		tokens int64
		ladder []budget.Rung
		status string
		code   int
		kinds  int64 // calls charged as kind planner
	}{
		"room":    {1e6, budget.Rungs(), "injected; sources=5;", 200, 110},
		"no room": {1700, budget.Rungs(), "injected; ladder=no_planner; sources=", 200, 0},
		"no rung": {1700, []budget.Rung{budget.FewerSources, budget.NoSources}, "refused; reason=quota", 429, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u, b := newUpstream(t, answerJSON(answer)), newTill(t)
			change, search := withPlanner(plans(`["more"]`), b.meter)
			// The request takes about 500 tokens without sources and 1,200 with one, a plan about
			// 1,400.
			g := openLimited(t, b, u, limited(t, only(budget.TokensPerDay, c.tokens), func(p *tenant.Policy) {
				planner(p)
				p.Budget.Ladder = c.ladder
				if name != "room" {
					p.Rewrite.ContextTokens = 1000
				}
			}), search, change)
			resp, _ := g.post(t, chatBody)
			if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, c.status) || resp.StatusCode != c.code {
				t.Errorf("%d, status %s, want %s", resp.StatusCode, got, c.status)
			}
			r := g.reports.next(t)
			if got := b.usage(t).Day.Kinds[budget.Planner].Tokens; got != c.kinds {
				t.Errorf("planner charged %d tokens, want %d; estimate %+v", got, c.kinds, r.Budget)
			}
			want := 0.0
			if name == "no room" {
				want = 1
				if p := r.Rewrite.Ledger.Planned; p == nil || p.Fallback != retrieval.PlanDisabled {
					t.Errorf("%+v", p)
				}
			}
			if got := reporttest.Count(t, b.metrics, "sidenote_budget_ladder_total", string(budget.NoPlanner)); got != want {
				t.Errorf("rung counted %v times", got)
			}
		})
	}
}

// A planner that hangs costs its timeout and nothing else: the request is sent, and its status
// says so.
func TestPlannerHangs(t *testing.T) {
	u := newUpstream(t, answerJSON(`{}`))
	change, search := withPlanner(func(ctx context.Context, _ services.LLMCall) (services.LLMAnswer, error) {
		<-ctx.Done()
		return services.LLMAnswer{}, ctx.Err()
	}, nil)
	cfg := proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
		planner(p)
		p.Rewrite.Planner.Timeout = 50 * time.Millisecond
	})}}
	change(&cfg)
	g := start(t, cfg, search)
	resp, _ := g.post(t, chatBody)
	if got := resp.Header.Get(report.HeaderStatus); !strings.Contains(got, "; planner=timeout; retrieval_query_count=1; ") {
		t.Errorf("status %s", got)
	}
	r := g.reports.next(t)
	if p := r.Rewrite.Ledger.Planned; p.Took < 50*time.Millisecond || r.Rewrite.RetrieveTook > p.Took || r.Overhead < p.Took {
		t.Errorf("planning took %v, search %v, all %v", p.Took, r.Rewrite.RetrieveTook, r.Overhead)
	}
	if reporttest.Count(t, g.metrics, "sidenote_degraded_total", "planner") != 1 {
		t.Error("not counted")
	}
}

// A request whose plan needs no search is sent unchanged; in mode shadow like any other.
func TestPlannerSkips(t *testing.T) {
	for _, mode := range []rewrite.Mode{rewrite.Inject, rewrite.Shadow} {
		u := newUpstream(t, answerJSON(`{}`))
		change, search := withPlanner(plans(`{"needs_retrieval": false}`), nil)
		cfg := proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			planner(p)
			p.Rewrite.Mode = mode
		})}}
		change(&cfg)
		g := start(t, cfg, search)
		g.post(t, chatBody)
		if got := u.next(t).body; got != chatBody {
			t.Errorf("%s: sent %s", mode, got)
		}
		if r := g.reports.next(t); r.Reason != rewrite.ReasonPlannerSkip || !r.Rewrite.Ledger.Planned.Applied {
			t.Errorf("%s: %s, %+v", mode, r.Reason, r.Rewrite.Ledger.Planned)
		}
	}
}

// What a planner made of a question is the user's text: it is in explanations only if texts are
// kept.
func TestPlannerExplained(t *testing.T) {
	for bodies, want := range map[explain.Bodies]bool{explain.BodiesOff: false, explain.BodiesRedacted: false, explain.BodiesFull: true} {
		ring := explain.New(1, bodies)
		of := &report.Report{ID: "a", Outcome: rewrite.Injected}
		of.Rewrite.Ledger.Planned = &retrieval.Planned{Queries: []string{"question", "my salary"}, Count: 2, Enabled: true, ModelID: "small", Fallback: retrieval.PlanOK, Took: time.Second}
		of.Rewrite.Ledger.Edits = []rewrite.Edit{}
		of.Rewrite.Retrieval.Planned = of.Rewrite.Ledger.Planned
		ring.Record(of)
		e, _, _ := ring.Find("a")
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "my salary"); got != want || !strings.Contains(string(text), `"retrieval_query_planner_fallback":"ok"`) || !strings.Contains(string(text), `"plan":1000`) {
			t.Errorf("%s: %s", bodies, text)
		}
		if len(of.Rewrite.Ledger.Queries) != 2 {
			t.Error("the report was changed")
		}
	}
}

// If the path names the model, as on Azure, the planner's path names the planner's model, unless
// it uses that of the request.
func TestPlannerDeployment(t *testing.T) {
	for model, deployment := range map[string]string{"small": "small", "": "gpt-4o"} {
		u, path := newUpstream(t, answerJSON("{}")), make(chan string, 1)
		change, search := withPlanner(func(_ context.Context, to services.LLMCall) (services.LLMAnswer, error) {
			path <- to.Path
			return services.LLMAnswer{Text: `["more"]`}, nil
		}, nil)
		cfg := proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			planner(p)
			p.Rewrite.Planner.Model = model
		})}}
		change(&cfg)
		g := start(t, cfg, search)
		g.raw(t, strings.Replace(chatRequest(chatBody), "/v1/chat/completions", "/openai/deployments/gpt-4o/chat/completions?api-version=1", 1))
		close(path) // the answer came after the plan
		if got, want := <-path, "/openai/deployments/"+deployment+"/chat/completions?api-version=1"; !strings.HasSuffix(got, want) {
			t.Errorf("model %q: asked %s, want %s", model, got, want)
		}
	}
}

// The planner speaks chat completions, or messages to an upstream that is asked for messages.
func TestPlannerPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": "/v1/chat/completions", "/v1/responses?x=1": "/v1/chat/completions?x=1", "/v1/responses/input_tokens": "/v1/chat/completions",
		"/v1/messages?beta=true": "/v1/messages?beta=true", "/v1/messages/count_tokens": "/v1/messages",
	} {
		u, asked := newUpstream(t, answerJSON("{}")), make(chan string, 1)
		change, search := withPlanner(func(_ context.Context, to services.LLMCall) (services.LLMAnswer, error) {
			asked <- to.Path
			return services.LLMAnswer{Text: `["more"]`}, nil
		}, nil)
		cfg := proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policyOf("acme", planner)}}
		change(&cfg)
		g := start(t, cfg, search)
		body := chatBody
		if strings.Contains(path, "responses") {
			body = `{"model":"m","input":"How long is parental leave?"}`
		}
		g.raw(t, strings.Replace(chatRequest(body), "/v1/chat/completions", path, 1))
		close(asked) // the answer came after the plan
		if got := <-asked; !strings.HasSuffix(got, want) || got == "" {
			t.Errorf("%s: asked %s, want %s", path, got, want)
		}
	}
}
