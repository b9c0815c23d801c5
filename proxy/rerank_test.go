package proxy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// A store caches everything.
type store struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (s *store) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[key], nil
}

func (s *store) Set(_ context.Context, key string, value []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[key] = value
	return nil
}

func tier() cache.Tier {
	return cache.Tier{Name: "memory", Store: &store{kept: map[string][]byte{}}, TTL: time.Hour, EmptyTTL: time.Hour}
}

// A scorer is a Scorer that answers by a function.
type scorer func(ctx context.Context, query string, documents []string) ([]float64, error)

func (s scorer) Scores(ctx context.Context, _, query string, documents []string) ([]float64, error) {
	return s(ctx, query, documents)
}

// rerankers returns Planners with the chat model of an api and with a scorer, on upstreams of the
// same name.
func rerankers(m *budget.Meter, a proxy.PlanAPI, s proxy.Scorer) *proxy.Planners {
	return &proxy.Planners{
		Judges: map[string]proxy.PlanUpstream{"scores": {API: a}}, Scorers: map[proxy.RerankService]proxy.Scorer{{Upstream: "scores", Dialect: services.RerankTEI}: s},
		Scores: cache.NewScores(tier(), nil), Models: models{}, Meter: m,
	}
}

// reranking returns request with a reranker.
func reranking(tokens int64, dialect services.RerankDialect) proxy.PlanRequest {
	r := request(tokens, budget.Rungs()...)
	r.Rerank = retrieval.RerankSettings{Upstream: "scores", Address: "http://scores.test", Model: "m", Dialect: string(dialect), Documents: 50, Timeout: time.Minute}
	return r
}

// judges returns a chat model that gives each of n documents a 5 and reports its usage.
func judges(n int) api {
	list := strings.Repeat(`{"index": %, "score": 5}, `, n)
	for i := range n {
		list = strings.Replace(list, "%", string(rune('0'+i)), 1)
	}
	return answers(`{"scores": [` + strings.TrimSuffix(list, ", ") + `]}`)
}

var eight = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

func kind(t *testing.T, l *budget.Memory, k budget.Kind) budget.Amount {
	t.Helper()
	u, err := l.Usage(t.Context(), "acme", budget.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Day.Kinds[k]
}

// A chat model that reranks is charged for each of its calls by its outcome, as kind rerank, and
// the rest of the reservation is released.
func TestRerankCharges(t *testing.T) {
	const each = 1000 + 16 + 64 + 2*24 // prompt, overhead, longest answer about two documents
	for name, c := range map[string]struct {
		api     api
		tokens  int64
		counted int64
		err     error
	}{
		"told":       {judges(2), 4 * 950, 4 * 950, nil},
		"no scores":  {answers("prose"), -1, -1, retrieval.ErrBadScores},
		"hangs":      {fails(context.DeadlineExceeded), 4 * each, 0, context.DeadlineExceeded},
		"refused":    {fails(&services.StatusError{Status: 401}), 0, 0, &services.StatusError{}},
		"left alone": {fails(services.ErrDown), 0, 0, services.ErrDown},
		"panics":     {func(context.Context, services.LLMCall) (services.LLMAnswer, error) { panic("index out of range") }, 4 * each, 0, errPanics},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := ledger(t)
			p, used := rerankers(m, c.api, nil), int64(0)
			p.OnUsage = func(tenant string, k budget.Kind, tokens int64) {
				if tenant != "acme" || k != budget.Rerank {
					t.Errorf("counted for %s, %s", tenant, k)
				}
				used += tokens
			}
			scores, err := p.Reranker(reranking(1e6, services.RerankLLM)).Rerank(t.Context(), "q", eight)
			status := new(services.StatusError)
			switch {
			case c.err == nil:
				if err != nil || !slices.Equal(scores, slices.Repeat([]float64{.5}, 8)) {
					t.Errorf("%v, %v", scores, err)
				}
			case errors.As(c.err, &status):
				if !errors.As(err, &status) {
					t.Error(err)
				}
			case c.err == errPanics:
				if err == nil {
					t.Error("a panic is no error")
				}
			case !errors.Is(err, c.err):
				t.Error(err)
			}
			got := kind(t, l, budget.Rerank)
			if c.tokens < 0 { // the first answer cancels the other calls, which may have been answered
				if got.Tokens < 950 || got.Tokens > 4*950 || got.Tokens != used {
					t.Errorf("charged %+v, counted %d", got, used)
				}
				return
			}
			if got.Tokens != c.tokens || used != c.counted || got.Requests != 0 {
				t.Errorf("charged %+v, want %d; counted %d, want %d", got, c.tokens, used, c.counted)
			}
		})
	}
}

var errPanics = errors.New("any error")

// A reranker never takes budget that its request needs, whatever the ladder: it is skipped, and no
// call is made.
func TestRerankNoRoom(t *testing.T) {
	const each = 1000 + 16 + 64 + 2*24
	for _, ladder := range [][]budget.Rung{budget.Rungs(), {budget.FewerSources}, nil} {
		for limit, room := range map[int64]bool{4*each + 2000: true, 4*each + 1999: false, 100: false} {
			l, m := ledger(t)
			var asked atomic.Int64
			r := reranking(limit, services.RerankLLM)
			r.Terms.Ladder, r.BaseCost = ladder, budget.Amount{Requests: 1, Tokens: 2000, Injected: 5}
			_, err := rerankers(m, api(func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) {
				asked.Add(1)
				return judges(2)(ctx, to)
			}), nil).Reranker(r).Rerank(t.Context(), "q", eight)
			if (err == nil) != room || err != nil && !errors.Is(err, retrieval.ErrNotAsked) || (asked.Load() == 4) != room || (asked.Load() == 0) == room {
				t.Errorf("limit %d, ladder %v: %v, asked %d times", limit, ladder, err, asked.Load())
			}
			if got := kind(t, l, budget.Rerank).Tokens; (got == 4*950) != room || (got == 0) == room {
				t.Errorf("limit %d: charged %d", limit, got)
			}
			d, err := l.Reserve(t.Context(), budget.Reservation{Tenant: "acme", ID: "r1:1", Kind: budget.Chat, Estimate: budget.Amount{Requests: 1, Tokens: min(2000, limit)}, Limits: r.Terms.Limits, Lease: time.Minute})
			if err != nil || !d.Granted {
				t.Errorf("limit %d: the request itself: granted %v, %v", limit, d.Granted, err)
			}
			if d.Granted {
				settlerPlanning{t, l}.Settle(budget.Settlement{Ticket: d.Ticket})
			}
		}
	}
}

// An answer that comes after its caller's timeout is cached for the next request. The caller has
// waited for its timeout only, and nothing stays reserved for it: an unknown cost is charged as
// the most that the call can take.
func TestLateAnswersAreKept(t *testing.T) {
	const timeout, late = 4 * time.Second, 6 * time.Second
	slow := func(a api) api {
		return func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) {
			select {
			case <-time.After(late):
				return a(ctx, to)
			case <-ctx.Done():
				return services.LLMAnswer{}, ctx.Err()
			}
		}
	}
	asked := 0
	slowScorer := scorer(func(ctx context.Context, _ string, documents []string) ([]float64, error) {
		asked++
		select {
		case <-time.After(late):
			return make([]float64, len(documents)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	once := func(a api) api {
		return func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) { asked++; return a(ctx, to) }
	}
	for name, c := range map[string]struct {
		charged int64
		calls   int
		kind    budget.Kind
		ask     func(*proxy.Planners, context.Context) error
	}{
		"planner": {1000 + 16 + 512, 1, budget.Planner, func(p *proxy.Planners, ctx context.Context) error {
			r := request(1e6)
			r.Settings.Timeout = timeout
			_, err := p.For(r).Plan(ctx, retrieval.Question{Text: "q"})
			return err
		}},
		"scores": {0, 1, budget.Rerank, func(p *proxy.Planners, ctx context.Context) error {
			_, err := p.Reranker(reranking(1e6, services.RerankTEI)).Rerank(ctx, "q", eight)
			return err
		}},
		"judge": {1000 + 16 + 64 + 24, 1, budget.Rerank, func(p *proxy.Planners, ctx context.Context) error {
			_, err := p.Reranker(reranking(1e6, services.RerankLLM)).Rerank(ctx, "q", []string{"a"})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, m := ledger(t)
				p := rerankers(m, once(slow(judges(1))), slowScorer)
				p.Upstreams, p.Plans, asked = map[string]proxy.PlanUpstream{"openai": {API: once(slow(answers(good)))}}, cache.NewPlans(tier(), nil), 0
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				began := time.Now()
				if err := c.ask(p, ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != timeout {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				synctest.Wait()
				if got := kind(t, l, c.kind).Tokens; got != c.charged || m.Open() != 0 {
					t.Errorf("charged %d, want %d; %d held", got, c.charged, m.Open())
				}
				time.Sleep(late - timeout) // of the synctest bubble
				synctest.Wait()
				if err := c.ask(p, t.Context()); err != nil || asked != c.calls || time.Since(began) != late {
					t.Errorf("the next one: %v, asked %d times, after %v", err, asked, time.Since(began))
				}
				if got := kind(t, l, c.kind).Tokens; got != c.charged {
					t.Errorf("charged %d in the end, want %d", got, c.charged)
				}
			})
		})
	}
}

// T04: two requests share scores only if tenant, service, model, question and documents are the
// same, including the boundaries of documents.
func TestKeysOfScores(t *testing.T) {
	asked := 0
	p := rerankers(nil, nil, scorer(func(_ context.Context, _ string, documents []string) ([]float64, error) {
		asked++
		return make([]float64, len(documents)), nil
	}))
	p.Scorers[proxy.RerankService{Upstream: "scores", Dialect: services.RerankCohere}] = p.Scorers[proxy.RerankService{Upstream: "scores", Dialect: services.RerankTEI}]
	changes := []func(r *proxy.PlanRequest, query *string, documents *[]string){
		func(*proxy.PlanRequest, *string, *[]string) {},
		func(r *proxy.PlanRequest, _ *string, _ *[]string) { r.Tenant = "umbrella" },
		func(r *proxy.PlanRequest, _ *string, _ *[]string) { r.Rerank.Address = "http://elsewhere.test" },
		func(r *proxy.PlanRequest, _ *string, _ *[]string) { r.Rerank.Model = "n" },
		func(r *proxy.PlanRequest, _ *string, _ *[]string) { r.Rerank.Dialect = string(services.RerankCohere) },
		func(_ *proxy.PlanRequest, query *string, _ *[]string) { *query = "Q" },
		func(_ *proxy.PlanRequest, _ *string, documents *[]string) { *documents = []string{"b", "ab"} },
		func(_ *proxy.PlanRequest, _ *string, documents *[]string) { *documents = []string{"ab1:b"} },
		func(_ *proxy.PlanRequest, _ *string, documents *[]string) { *documents = []string{"abb"} },
		func(_ *proxy.PlanRequest, _ *string, documents *[]string) { *documents = []string{"a", "bb"} },
	}
	for round := range 2 {
		for i, change := range changes {
			r, query, documents := reranking(0, services.RerankTEI), "q", []string{"ab", "b"}
			change(&r, &query, &documents)
			before := asked
			by := p.Reranker(r)
			for range 2 { // the second time from the request's own memory
				if scores, err := by.Rerank(t.Context(), query, documents); err != nil || len(scores) != len(documents) || (asked > before) != (round == 0) || by.FromCache() != (round > 0) {
					t.Errorf("round %d, change %d: %v, %v, asked %d times, kept %v", round, i, scores, err, asked-before, by.FromCache())
				}
			}
		}
	}
}
