package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// hangingServices is a configuration whose services accept connections and never answer.
const hangingServices = `upstreams:
  default: {base_url: "http://silent.test"}
  silent: {base_url: "http://silent.test", api_key: {env: KEY}}
redis: {url: "redis://silent.test", timeout: 70ms}
policies:
  default:
    upstream: default
    retrieval: {deadline: 310ms}
    planner: {upstream: silent, model: m, timeout: 1700ms}
    rerank: {upstream: silent, model: m, dialect: %s, timeout: 900ms}
    grade: {by: llm, upstream: silent, model: m, timeout: 600ms}
`

var mostRetrievalLine = regexp.MustCompile(`(?m)^retrieval  at most (\S+) a request: a plan, then Redis, then the search, then scores, then grades$`)

// silent opens connections to a service that reads and never answers.
func silent(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	return ours, nil
}

// A hung store waits until its deadline, like a Redis that accepts connections and never answers.
type hung struct{}

func (hung) Get(ctx context.Context, _ string) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
func (hung) Set(ctx context.Context, _ string, _ []byte, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// A near store keeps everything in memory.
type near struct{ kept sync.Map }

func (s *near) Get(_ context.Context, key string) ([]byte, error) {
	value, _ := s.kept.Load(key)
	kept, _ := value.([]byte)
	return kept, nil
}

func (s *near) Set(_ context.Context, key string, value []byte, _ time.Duration) error {
	s.kept.Store(key, value)
	return nil
}

type anyModel struct{}

func (anyModel) Model(string) model.Model { return model.Model{Row: "m", Counter: countless{}} }

type countless struct{}

func (countless) Count(string) (int, bool) { return 10, true }

// With a planner, Redis, embeddings, a remote base, a reranker of any dialect and a grader that all
// hang, no concurrent request waits longer than check prints, and one waits exactly that long. Time
// is faked, so the machine does not matter. The results of the word search are used.
//
// Row K2 of deploy/CONTRIBUTING.md.
func TestHangingServicesCostWhatCheckPrints(t *testing.T) {
	for _, dialect := range []services.RerankDialect{services.RerankCohere, services.RerankTEI, services.RerankLLM} {
		t.Run(string(dialect), func(t *testing.T) {
			cfg, err := config.Load(config.Source{Path: "c.yaml", Read: func(string) ([]byte, error) {
				return fmt.Appendf(nil, hangingServices, dialect), nil
			}, Env: func(name string) (string, bool) { return map[string]string{"KEY": "secret"}[name], name == "KEY" }})
			if err != nil {
				t.Fatal(err)
			}
			var printed strings.Builder
			printSummary(&printed, cfg)
			line := mostRetrievalLine.FindStringSubmatch(printed.String())
			if line == nil {
				t.Fatalf("check prints\n%s", printed.String())
			}
			most, err := time.ParseDuration(line[1])
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				stack := newSilentStack(t, cfg, dialect)
				const requests = 40
				took := make(chan time.Duration, requests)
				for i := range requests {
					go func() { took <- stack.ask(t, fmt.Sprintf("question %d", i)) }()
				}
				longest := time.Duration(0)
				for range requests {
					one := <-took
					longest = max(longest, one)
					if one > most {
						t.Errorf("a request waited for %v, check prints %v", one, most)
					}
				}
				if longest != most {
					t.Errorf("the longest wait is %v, check prints %v", longest, most)
				}
			})
		})
	}
}

// A silentStack is everything between a request and its sources, with services that never answer.
type silentStack struct {
	policy   rewrite.Policy
	planners *proxy.Planners
	search   retrieval.Retriever
}

func newSilentStack(t *testing.T, cfg *config.Config, dialect services.RerankDialect) *silentStack {
	t.Helper()
	at := &url.URL{Scheme: "http", Host: "silent.test"}
	chats := services.NewLLM(services.LLMOptions{Use: "planner", Name: "silent", BaseURL: at, Dial: silent})
	vectors := services.NewEmbedder(services.EmbedOptions{BaseURL: at, Dial: silent, Model: "m", Counter: countless{}})
	grades := services.NewLLM(services.LLMOptions{Use: "grade", Name: "silent", BaseURL: at, Dial: silent})
	stop := []func(){chats.Close, grades.Close, vectors.Close}
	memory := cache.Tier{Name: "memory", Store: new(near), TTL: time.Hour, EmptyTTL: time.Hour}
	p, _ := cfg.Tenant("default")
	s := &silentStack{policy: p.Rewrite, planners: &proxy.Planners{
		Upstreams: map[string]proxy.PlanUpstream{"silent": {API: chats}}, Plans: cache.NewPlans(memory, nil), Models: anyModel{},
		Scorers: map[proxy.RerankService]proxy.Scorer{}, Judges: map[string]proxy.PlanUpstream{}, Scores: cache.NewScores(memory, nil),
		Graders: map[string]proxy.PlanUpstream{"silent": {API: grades}},
	}}
	if dialect == services.RerankLLM {
		s.planners.Judges["silent"] = proxy.PlanUpstream{API: chats}
	} else {
		scores := services.NewReranker(services.RerankOptions{Name: "silent", BaseURL: at, Dialect: dialect, Dial: silent})
		stop = append(stop, scores.Close)
		s.planners.Scorers[proxy.RerankService{Upstream: "silent", Dialect: dialect}] = scores
	}
	t.Cleanup(func() {
		time.Sleep(time.Minute) // in the bubble: late calls end by themselves
		for _, one := range stop {
			one()
		}
	})
	tiers := []cache.Tier{memory, {Name: "redis", Store: hung{}, TTL: time.Hour, EmptyTTL: time.Hour, Wait: cfg.Redis.Timeout}}
	bases := map[string]retrieval.Retriever{"docs": embedding(vectors), "legal": retrieval.Func(searchElsewhere)}
	for id, base := range bases {
		bases[id] = cache.NewRetriever(base, cache.Candidates, tiers, nil)
	}
	terms := strings.Fields
	pipeline := &retrieval.Pipeline{Bases: func(id string) retrieval.Retriever { return bases[id] }, Terms: terms, Punctual: true}
	s.search = &retrieval.Prepare{
		Next: cache.NewRetriever(pipeline, cache.Selected, tiers, nil), HasTerms: func(text string) bool { return len(terms(text)) > 0 },
		Ref:  func(id string) (retrieval.Ref, bool) { return retrieval.Ref{Knowledge: id, Generation: "g"}, true },
		Join: func(string, iter.Seq[string]) []retrieval.Turn { return nil },
	}
	return s
}

// embedding returns a base that requests the vector of each question, and answers without it in
// time.
func embedding(vectors retrieval.Embedder) retrieval.Func {
	return func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		by, _ := retrieval.AnswerBy(ctx)
		limited, cancel := context.WithDeadline(ctx, by.Add(-time.Millisecond))
		defer cancel()
		_, err := vectors.Embed(limited, []string{q.Text})
		res := retrieval.Result{Bases: q.Bases, Degraded: retrieval.StageEmbed, EmbedFailure: retrieval.EmbedReasonOf(err)}
		for i, text := range []string{"one answer", "quite another thing"} {
			res.Sources = append(res.Sources, retrieval.Source{Type: "rag", Knowledge: "docs", Doc: fmt.Sprint(i), Text: text, Score: 2})
		}
		return res, nil
	}
}

// searchElsewhere is a base that hangs.
func searchElsewhere(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	<-ctx.Done()
	return retrieval.Result{Bases: q.Bases}, ctx.Err()
}

// ask searches for a question as a request does, and returns the time it took.
func (s *silentStack) ask(t *testing.T, text string) time.Duration {
	policy, of := s.policy, proxy.PlanDryRun(&s.policy, "m", nil)
	s.planners.SetHelpers(&policy, of)
	q := retrieval.Query{Tenant: "default", Text: text, Bases: []retrieval.Ref{{Knowledge: "docs"}, {Knowledge: "legal"}}, Settings: policy.Search}
	policy.AddStages(&q, "m", nil)
	began := time.Now()
	res, err := s.search.Retrieve(t.Context(), q)
	took := time.Since(began)
	switch {
	case err != nil || len(res.Sources) != 2 || !res.Partial || res.Reason != retrieval.ReasonTimeout:
		t.Errorf("%s: %v, %+v", text, err, res)
	case !res.Planned.Fallback.Failed() || res.EmbedFailure == "" || res.Reranked.Failed() == "" || res.Graded.Failed() == "":
		t.Errorf("%s: plan %s, vector %s, scores %s, grades %s", text, res.Planned.Fallback, res.EmbedFailure, res.Reranked.Reason, res.Graded.Reason)
	}
	return took
}
