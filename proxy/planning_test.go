package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/report/reporttest"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// An api is a PlanAPI that answers each call by a function.
type api func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error)

func (a api) Ask(ctx context.Context, to services.LLMCall, _ services.Prompt) (services.LLMAnswer, error) {
	return a(ctx, to)
}

// keys records the keys of the plans that are looked up; none is ever found.
type keys struct{ all []string }

func (k *keys) Plan(ctx context.Context, tenant string, key []string, find func(context.Context) (retrieval.Plan, error)) (p retrieval.Plan, err error) {
	defer func() { // as cache flights do
		if recover() != nil {
			err = errors.New("panic")
		}
	}()
	k.all = append(k.all, strings.Join(append([]string{tenant}, key...), "\x00"))
	return find(ctx)
}

// models counts 1,000 tokens in any text.
type models struct{}

func (models) Model(string) model.Model {
	return model.Model{Row: "m", Counter: counter{}, Reasoning: tokens.ReasoningNone}
}

type counter struct{}

func (counter) Count(string) (int, bool) { return 1000, true }

const good = `{"queries": ["a"]}`

// answers returns an api that answers with a text and reports its usage.
func answers(text string) api {
	return func(context.Context, services.LLMCall) (services.LLMAnswer, error) {
		return services.LLMAnswer{Text: text, Usage: services.LLMUsage{Input: 900, Output: 50, Known: true}}, nil
	}
}

func fails(err error) api {
	return func(context.Context, services.LLMCall) (services.LLMAnswer, error) { return services.LLMAnswer{}, err }
}

// request returns a request of tenant acme for model m, under limits per day; 0 is no limit.
func request(tokens int64, ladder ...budget.Rung) proxy.PlanRequest {
	terms := &budget.Terms{Limits: budget.Limits{budget.TokensPerDay: tokens}, Ladder: ladder}
	return proxy.PlanRequest{
		Tenant: "acme", ID: "r1", Upstream: "openai", Model: "m", Terms: terms,
		Settings: retrieval.PlanSettings{MaxQueries: 3, Turns: 3, Timeout: time.Minute},
	}
}

// ledger returns a ledger in memory, with a fixed clock.
func ledger(t *testing.T) (*budget.Memory, *budget.Meter) {
	t.Helper()
	now := time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)
	l := budget.NewMemory(func() time.Time { return now })
	m := budget.NewMeter(l, l, settlerPlanning{t, l}, reporttest.NewMetrics().NewBudgets())
	t.Cleanup(func() {
		if u, err := l.Usage(context.Background(), "acme", budget.Limits{}); err != nil || u.Day.Held != (budget.Amount{}) || m.Open() != 0 {
			t.Errorf("held: %+v, %d open, %v", u.Day.Held, m.Open(), err)
		}
	})
	return l, m
}

type settlerPlanning struct {
	t      *testing.T
	ledger budget.Ledger
}

func (s settlerPlanning) Settle(one budget.Settlement) {
	if _, err := s.ledger.Settle(context.Background(), one); err != nil {
		s.t.Error(err)
	}
}

func spent(t *testing.T, l *budget.Memory) budget.Amount {
	t.Helper()
	u, err := l.Usage(t.Context(), "acme", budget.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Day.Kinds[budget.Planner]
}

func planners(m *budget.Meter, a proxy.PlanAPI) *proxy.Planners {
	return &proxy.Planners{Upstreams: map[string]proxy.PlanUpstream{"openai": {API: a}}, Plans: new(keys), Models: models{}, Meter: m}
}

// Each call is charged by its outcome, as kind planner, and the rest of its reservation is
// released.
func TestCharges(t *testing.T) {
	const estimate = 1000 + 16 + 512 // prompt, overhead, longest answer
	for name, c := range map[string]struct {
		api     api
		tokens  int64
		counted int64 // for the metric Used
	}{
		"told":    {answers(good), 950, 950},
		"no plan": {answers("prose"), 950, 950},
		"not told": {func(context.Context, services.LLMCall) (services.LLMAnswer, error) {
			return services.LLMAnswer{Text: good}, nil
		}, estimate, estimate},
		"lies": {func(context.Context, services.LLMCall) (services.LLMAnswer, error) {
			return services.LLMAnswer{Text: good, Usage: services.LLMUsage{Input: 1e9, Output: 1, Known: true}}, nil
		}, estimate, estimate},
		"hangs":           {fails(context.DeadlineExceeded), estimate, 0},
		"gateway in vain": {fails(&services.StatusError{Status: 504}), estimate, 0},
		"refused":         {fails(&services.StatusError{Status: 401}), 0, 0},
		"failed":          {fails(&services.StatusError{Status: 500}), 0, 0},
		"left alone":      {fails(services.ErrDown), 0, 0},
		"panics":          {func(context.Context, services.LLMCall) (services.LLMAnswer, error) { panic("index out of range") }, estimate, 0},
		"not reached":     {fails(syscall.ECONNREFUSED), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := ledger(t)
			p, used := planners(m, c.api), int64(0)
			p.OnUsage = func(tenant string, kind budget.Kind, tokens int64) { used += tokens }
			_, err := p.For(request(1e6)).Plan(t.Context(), retrieval.Question{Text: "q"})
			if (err == nil) != (name == "told" || name == "not told" || name == "lies") {
				t.Error(err)
			}
			if got := spent(t, l); got.Tokens != c.tokens || got.Requests != 0 || used != c.counted {
				t.Errorf("charged %+v, want %d; counted %d, want %d", got, c.tokens, used, c.counted)
			}
		})
	}
}

// Money is charged by the prices of the planner's model. If money is limited, a model without a
// price is not called.
func TestMoney(t *testing.T) {
	prices, err := budget.ParsePrices("1", "", "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		match string
		money int64
		want  error
	}{{"m", (900 + 2*50) * budget.USD / 1e6, nil}, {"other", 0, retrieval.ErrNotAsked}} {
		l, m := ledger(t)
		r := request(0)
		r.Terms.Limits, r.Terms.Prices = budget.Limits{budget.MoneyPerDay: budget.USD}, budget.PriceTable{{Match: c.match, Prices: prices}}
		_, err := planners(m, answers(good)).For(r).Plan(t.Context(), retrieval.Question{Text: "q"})
		if !errors.Is(err, c.want) || spent(t, l).Money != c.money {
			t.Errorf("%s: %v, charged %+v", c.match, err, spent(t, l))
		}
	}
}

// A plan never takes budget that its request needs: without room for both the planner is skipped
// on its rung. If the ladder lacks the rung, the request is refused.
func TestNoRoom(t *testing.T) {
	for name, c := range map[string]struct {
		limit    int64
		ladder   []budget.Rung
		gaveWay  bool
		refused  bool
		bareFits bool // the request itself fits afterwards
	}{
		"room for both":    {1528 + 2000, budget.Rungs(), false, false, true},
		"no room for both": {1528 + 1999, budget.Rungs(), true, false, true},
		"none for either":  {100, budget.Rungs(), true, false, false},
		"no rung":          {1528 + 1999, []budget.Rung{budget.FewerSources}, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := ledger(t)
			r, asked := request(c.limit, c.ladder...), 0
			r.BaseCost = budget.Amount{Requests: 1, Tokens: 2000, Injected: 5}
			p := planners(m, api(func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) {
				asked++
				return answers(good)(ctx, to)
			})).For(r)
			_, err := p.Plan(t.Context(), retrieval.Question{Text: "q"})
			planned := !c.gaveWay && !c.refused
			if (err == nil) != planned || err != nil && !errors.Is(err, retrieval.ErrNotAsked) || asked > 0 != planned {
				t.Errorf("%v, asked %d times", err, asked)
			}
			if p.Skipped() != c.gaveWay || (p.Refusal() != nil) != c.refused {
				t.Errorf("gave way %v, refused %v", p.Skipped(), p.Refusal())
			}
			d, err := l.Reserve(t.Context(), budget.Reservation{Tenant: "acme", ID: "r1:1", Kind: budget.Chat, Estimate: budget.Amount{Requests: 1, Tokens: 2000}, Limits: r.Terms.Limits, Lease: time.Minute})
			if err != nil || d.Granted != c.bareFits {
				t.Errorf("the request itself: granted %v, %v", d.Granted, err)
			}
			if d.Granted {
				settlerPlanning{t, l}.Settle(budget.Settlement{Ticket: d.Ticket})
			}
		})
	}
}

// The model is called once, however often a request is rewritten.
func TestOnce(t *testing.T) {
	asked := 0
	p := planners(nil, api(func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) {
		asked++
		return services.LLMAnswer{}, context.DeadlineExceeded
	})).For(request(0))
	for range 3 {
		if _, err := p.Plan(t.Context(), retrieval.Question{Text: "q"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// A plan that was made for another request counts as kept, however often it is used.
func TestKeptPlan(t *testing.T) {
	p := planners(nil, answers(good))
	p.Plans = cache.NewPlans(tier(), nil)
	for _, want := range []bool{false, true} {
		of := p.For(request(0))
		for range 2 {
			if plan, err := of.Plan(t.Context(), retrieval.Question{Text: "q"}); err != nil || plan.Cached != want {
				t.Errorf("%+v, %v, want %v", plan, err, want)
			}
		}
	}
}

// The caller's credential is sent to the request's own upstream only, and only if Sidenote has no
// key for it. Without a model no call is made.
func TestCredentials(t *testing.T) {
	theirs, ours := http.Header{"Authorization": {"Bearer theirs"}}, http.Header{"Api-Key": {"ours"}}
	var got *services.LLMCall
	record := api(func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) {
		got = &to
		return answers(good)(ctx, to)
	})
	p := planners(nil, record)
	p.Upstreams["keyed"] = proxy.PlanUpstream{API: record, OwnHeader: ours}
	p.Upstreams["keyless"] = proxy.PlanUpstream{API: record}
	for name, c := range map[string]struct {
		upstream, planner string
		model             string
		want              *services.LLMCall
	}{
		"own upstream":               {"openai", "", "m", &services.LLMCall{Path: "/x", Header: theirs}},
		"own upstream, our key":      {"keyed", "", "m", &services.LLMCall{Path: "/x", Header: ours, Own: true}},
		"another upstream":           {"openai", "keyed", "m", &services.LLMCall{Header: ours, Own: true}},
		"another upstream, no key":   {"openai", "keyless", "m", &services.LLMCall{}},
		"another upstream, same one": {"openai", "openai", "m", &services.LLMCall{}},
		"no model":                   {"openai", "", "", nil},
		"unknown upstream":           {"openai", "gone", "m", nil},
	} {
		r := request(0)
		r.Upstream, r.Settings.Upstream, r.Model, r.Path, r.Credentials = c.upstream, c.planner, c.model, "/x", theirs
		got = nil
		_, err := p.For(r).Plan(t.Context(), retrieval.Question{Text: "q"})
		if c.want == nil {
			if !errors.Is(err, retrieval.ErrNotAsked) || got != nil {
				t.Errorf("%s: %v, asked %+v", name, err, got)
			}
			continue
		}
		if err != nil || got == nil || got.Path != c.want.Path || got.Own != c.want.Own || !slices.Equal(got.Header["Authorization"], c.want.Header["Authorization"]) || !slices.Equal(got.Header["Api-Key"], c.want.Header["Api-Key"]) {
			t.Errorf("%s: %v, asked %+v, want %+v", name, err, got, c.want)
		}
	}
}

// T04: two requests share a plan only if tenant, credential, upstream, path, model and everything
// that the model sees are the same.
func TestKeysOfPlans(t *testing.T) {
	seen := new(keys)
	p := planners(nil, answers(good))
	p.Plans = seen
	p.Upstreams["other"] = proxy.PlanUpstream{API: answers(good), Base: "https://other.test"}
	q := retrieval.Question{Text: "q", Earlier: []string{"a", "b"}, MaxQueries: 3, MaySkip: true}
	base := request(0)
	base.Credentials = http.Header{"Authorization": {"Bearer one"}}
	for _, change := range []func(*proxy.PlanRequest, *retrieval.Question){
		func(*proxy.PlanRequest, *retrieval.Question) {},
		func(r *proxy.PlanRequest, _ *retrieval.Question) { r.Tenant = "umbrella" },
		func(r *proxy.PlanRequest, _ *retrieval.Question) {
			r.Credentials = http.Header{"Authorization": {"Bearer two"}}
		},
		func(r *proxy.PlanRequest, _ *retrieval.Question) {
			r.Credentials = http.Header{"Api-Key": {"Bearer one"}}
		},
		func(r *proxy.PlanRequest, _ *retrieval.Question) { r.Credentials = nil },
		func(r *proxy.PlanRequest, _ *retrieval.Question) { r.Upstream = "other" },
		func(r *proxy.PlanRequest, _ *retrieval.Question) { r.Model = "n" },
		func(r *proxy.PlanRequest, _ *retrieval.Question) { r.Path = "/openai/deployments/n/chat/completions" },
		func(_ *proxy.PlanRequest, q *retrieval.Question) { q.Text = "Q" },
		func(_ *proxy.PlanRequest, q *retrieval.Question) { q.Earlier = []string{"b", "a"} },
		func(_ *proxy.PlanRequest, q *retrieval.Question) { q.Earlier = []string{"ab"} },
		func(_ *proxy.PlanRequest, q *retrieval.Question) { q.MaxQueries = 2 },
		func(_ *proxy.PlanRequest, q *retrieval.Question) { q.MaySkip = false },
	} {
		r, one := base, q
		change(&r, &one)
		if _, err := p.For(r).Plan(t.Context(), one); err != nil {
			t.Error(err)
		}
	}
	for i, key := range seen.all {
		if slices.Index(seen.all, key) != i || strings.Contains(key, "Bearer") {
			t.Errorf("key %d is %q", i, key)
		}
	}
	same := base
	same.ID = "r2"
	if _, err := p.For(same).Plan(t.Context(), q); err != nil || seen.all[len(seen.all)-1] != seen.all[0] {
		t.Errorf("another request that asks the same has key %q, %v", seen.all[len(seen.all)-1], err)
	}
}
