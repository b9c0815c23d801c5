package logreport

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sidenote/proxy/report"
)

// A Report summarizes the lines of a log. Shares are from 0 to 1.
type Report struct {
	Object     string       `json:"object"`          // "log.report"
	Since      *time.Time   `json:"since,omitempty"` // earlier lines are not counted; absent: all are
	First      *time.Time   `json:"first,omitempty"` // end of the first request
	Last       *time.Time   `json:"last,omitempty"`
	Lines      Lines        `json:"lines"`
	Outcomes   []Outcome    `json:"outcomes"`
	Reasons    []Reason     `json:"reasons"`                // why there were no sources, or no answer
	Misses     []Reason     `json:"cache_misses,omitempty"` // why prompt caches missed, as sampled upstreams say
	All        Group        `json:"all"`
	Tenants    []Group      `json:"tenants"`
	Policies   []Group      `json:"policies"`
	Models     []Group      `json:"models"`     // chats by row of the model table
	Unanswered []Unanswered `json:"unanswered"` // searches that found nothing
	Compared   *Compared    `json:"shadow_against_inject,omitempty"`
	Tools      *Tools       `json:"tools,omitempty"`
	Stages     []Stage      `json:"stages,omitempty"`
}

// Lines counts lines by kind.
type Lines struct {
	Read     int `json:"read"`
	Requests int `json:"requests"`
	Before   int `json:"before_since"`
	Other    int `json:"other"`  // JSON, but not a request
	Broken   int `json:"broken"` // not JSON, truncated, or with impossible values
}

// An Outcome counts the requests with one outcome.
type Outcome struct {
	Outcome  string  `json:"outcome"`
	Requests int     `json:"requests"`
	Share    float64 `json:"share"`
}

// A Reason counts the requests with one reason for no sources, or no answer.
type Reason struct {
	Reason   string `json:"reason"`
	Requests int    `json:"requests"`
}

// A Group is all requests, or those of one tenant, policy or model.
type Group struct {
	Name          string   `json:"name,omitempty"`
	Requests      int      `json:"requests"`
	Failed        int      `json:"failed"` // status 400 and above, or a truncated answer
	Chats         int      `json:"chats"`
	Injected      int      `json:"injected"`
	InjectedShare float64  `json:"injected_share"` // of the chats
	NoMatch       int      `json:"no_match"`
	Irrelevant    int      `json:"irrelevant"`
	Tokens        Tokens   `json:"tokens"`
	CachedShare   float64  `json:"cached_share"`         // of the input: read from the upstream's cache
	ContextCached float64  `json:"context_cached_share"` // the same of the added tokens
	Cost          *Cost    `json:"cost,omitempty"`       // absent without prices
	ChargedUSD    float64  `json:"charged_usd,omitempty"`
	Cache         Cache    `json:"cache"`
	Overhead      Quantile `json:"overhead_ms"` // of requests that were relayed
	Retrieval     Quantile `json:"retrieval_ms"`
	FirstByte     Quantile `json:"first_byte_ms"`
	Duration      Quantile `json:"duration_ms"`
}

// Tokens are the tokens added to prompts, and those that answers reported.
type Tokens struct {
	Context     int64 `json:"context"`      // added by injection
	ToolResults int64 `json:"tool_results"` // added by tools
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input"`          // part of Input
	CacheWrite  int64 `json:"cache_write,omitempty"` // likewise: written into the upstream's cache
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"` // part of Output
	Reported    int   `json:"told"`      // answers that reported their usage
	Unreported  int   `json:"untold"`    // answers that did not

	// The added tokens in Input, and of these the cached and the written ones, estimated by their
	// position in the prompt.
	ContextInput      int64 `json:"context_input"`
	ContextCached     int64 `json:"context_cached"`
	ContextCacheWrite int64 `json:"context_cache_write,omitempty"`
}

// A Cost is the cost of requests in US dollars, by the prices of a configuration or else as logged.
type Cost struct {
	USD        float64 `json:"usd"`
	ContextUSD float64 `json:"context_usd"` // of the added tokens, estimated
	Priced     int     `json:"priced_requests"`
	Unpriced   int     `json:"unpriced_requests"` // whose model has no price, or whose answer reported no usage
}

// A Cache counts the cache hits of searches.
type Cache struct {
	Hits    int     `json:"hits"`
	Lookups int     `json:"lookups"`
	Share   float64 `json:"share"`
}

// A Quantile holds a median and a 95th percentile, with an error of at most 1/32.
type Quantile struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// An Unanswered counts the questions of a tenant that found nothing in the searched bases.
type Unanswered struct {
	Tenant     string  `json:"tenant"`
	Knowledge  string  `json:"knowledge"` // ids joined by ", "; "" if the log lacks them
	Searched   int     `json:"searched"`
	NoMatch    int     `json:"no_match"`
	Irrelevant int     `json:"irrelevant"`
	Share      float64 `json:"share"`   // of the searched
	LastID     string  `json:"last_id"` // of the last such request, for sidenote explain
}

// Compared compares chats in shadow mode with those that get sources.
type Compared struct {
	Shadow Side `json:"shadow"`
	Inject Side `json:"inject"`
}

// A Side is one of the two. Means are over the requests with added context.
type Side struct {
	Requests  int      `json:"requests"`
	With      int      `json:"with_context"`
	Share     float64  `json:"share"`
	Tokens    float64  `json:"context_tokens_mean"`
	Sources   float64  `json:"sources_mean"`
	Cache     Cache    `json:"cache"`
	Retrieval Quantile `json:"retrieval_ms"`
	Overhead  Quantile `json:"overhead_ms"`
	FirstByte Quantile `json:"first_byte_ms"`
}

// Tools summarizes the tool use of models.
type Tools struct {
	Requests int   `json:"requests"`
	Rounds   int64 `json:"rounds"`
	Calls    int64 `json:"calls"`
	Tokens   int64 `json:"tokens"` // of the results
}

// A Stage summarizes the calls of one stage of answers.
type Stage struct {
	Name     string   `json:"stage"`
	Called   int      `json:"called"`
	Failed   int      `json:"failed"`
	Input    int64    `json:"input_tokens"`
	Output   int64    `json:"output_tokens"`
	Duration Quantile `json:"duration_ms"`
}

// Report returns the counts, largest first.
func (t *Tally) Report() *Report {
	r := &Report{
		Object: "log.report", Since: moment(t.Since), First: moment(t.first), Last: moment(t.last), Lines: t.lines,
		Outcomes: []Outcome{}, Reasons: []Reason{}, Unanswered: []Unanswered{},
		All: t.all.report("", t.priced()), Tenants: t.groups(t.tenants), Policies: t.groups(t.policies), Models: t.groups(t.models),
	}
	for _, name := range largest(t.outcomes, func(n int) int { return n }) {
		r.Outcomes = append(r.Outcomes, Outcome{name, t.outcomes[name], share(t.outcomes[name], t.lines.Requests)})
	}
	for _, name := range largest(t.reasons, func(n int) int { return n }) {
		r.Reasons = append(r.Reasons, Reason{name, t.reasons[name]})
	}
	for _, name := range largest(t.misses, func(n int) int { return n }) {
		r.Misses = append(r.Misses, Reason{name, t.misses[name]})
	}
	for _, u := range t.unanswered {
		if u.NoMatch+u.Irrelevant > 0 {
			row := *u
			row.Share = share(u.NoMatch+u.Irrelevant, u.Searched)
			r.Unanswered = append(r.Unanswered, row)
		}
	}
	slices.SortFunc(r.Unanswered, func(a, b Unanswered) int {
		return cmp.Or(b.NoMatch+b.Irrelevant-a.NoMatch-a.Irrelevant, cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Knowledge, b.Knowledge))
	})
	if t.shadow.requests > 0 {
		r.Compared = &Compared{t.shadow.report(), t.inject.report()}
	}
	if t.tools.Requests > 0 {
		tools := t.tools
		r.Tools = &tools
	}
	for _, name := range largest(t.stages, func(s *stage) int { return s.called }) {
		s := t.stages[name]
		r.Stages = append(r.Stages, Stage{name, s.called, s.failed, s.input, s.output, quantile(&s.took)})
	}
	return r
}

// priced reports whether costs are known.
func (t *Tally) priced() bool { return len(t.Prices) > 0 || t.all.priced > 0 }

// largest returns the names sorted by their numbers, largest first.
func largest[V any](of map[string]V, number func(V) int) []string {
	return slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(number(of[b])-number(of[a]), cmp.Compare(a, b))
	})
}

func (t *Tally) groups(of map[string]*group) []Group {
	list := []Group{}
	for _, name := range largest(of, func(g *group) int { return g.requests }) {
		list = append(list, of[name].report(name, t.priced()))
	}
	return list
}

func (g *group) report(name string, priced bool) Group {
	out := Group{
		Name: name, Requests: g.requests, Failed: g.failed, Chats: g.chats, Injected: g.injected, InjectedShare: share(g.injected, g.chats),
		NoMatch: g.noMatch, Irrelevant: g.irrelevant,
		Tokens:      Tokens{g.contextTokens, g.toolTokens, g.input, g.cachedInput, g.cacheWrite, g.output, g.reasoning, g.told, g.untold, g.contextInput, g.contextCached, g.contextWritten},
		CachedShare: share(int(g.cachedInput), int(g.input)), ContextCached: share(int(g.contextCached), int(g.contextInput)), ChargedUSD: g.charged,
		Cache:    cacheOf(g.cacheHits, g.cacheHits+g.cacheMisses),
		Overhead: quantile(&g.overhead), Retrieval: quantile(&g.retrieval), FirstByte: quantile(&g.firstByte), Duration: quantile(&g.total),
	}
	if priced {
		out.Cost = &Cost{g.usd, g.contextUSD, g.priced, g.unpriced}
	}
	return out
}

func (s *side) report() Side {
	out := Side{
		Requests: s.requests, With: s.with, Share: share(s.with, s.requests), Cache: cacheOf(s.hits, s.lookups),
		Retrieval: quantile(&s.retrieval), Overhead: quantile(&s.overhead), FirstByte: quantile(&s.firstByte),
	}
	if s.with > 0 {
		out.Tokens, out.Sources = float64(s.tokens)/float64(s.with), float64(s.sources)/float64(s.with)
	}
	return out
}

func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func cacheOf(hits, lookups int) Cache { return Cache{hits, lookups, share(hits, lookups)} }

func quantile(h *report.Histogram) Quantile {
	ms := func(q float64) float64 { return float64(h.Quantile(q).Microseconds()) / 1e3 }
	return Quantile{ms(.5), ms(.95)}
}
