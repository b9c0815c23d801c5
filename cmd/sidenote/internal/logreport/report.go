package logreport

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sidenote/proxy/report"
)

// A Report is what the lines of a log come to. Shares are from 0 to 1.
type Report struct {
	Object     string       `json:"object"`          // "log.report"
	Since      *time.Time   `json:"since,omitempty"` // lines before it are not counted; absent: all are
	First      *time.Time   `json:"first,omitempty"` // the ends of the first and the last request
	Last       *time.Time   `json:"last,omitempty"`
	Lines      Lines        `json:"lines"`
	Outcomes   []Outcome    `json:"outcomes"`
	Reasons    []Reason     `json:"reasons"` // why there were no sources, or no answer
	All        Group        `json:"all"`
	Tenants    []Group      `json:"tenants"`
	Policies   []Group      `json:"policies"`
	Unanswered []Unanswered `json:"unanswered"` // where questions found nothing
	Compared   *Compared    `json:"shadow_against_inject,omitempty"`
	Tools      *Tools       `json:"tools,omitempty"`
	Stages     []Stage      `json:"stages,omitempty"`
}

// Lines are how many lines there are of which kind.
type Lines struct {
	Read     int `json:"read"`
	Requests int `json:"requests"`
	Before   int `json:"before_since"`
	Other    int `json:"other"`  // JSON, and no request's
	Broken   int `json:"broken"` // no JSON, cut, or of impossible values
}

// An Outcome is what became of some of the requests.
type Outcome struct {
	Outcome  string  `json:"outcome"`
	Requests int     `json:"requests"`
	Share    float64 `json:"share"`
}

// A Reason says why some of the requests got no sources, or no answer.
type Reason struct {
	Reason   string `json:"reason"`
	Requests int    `json:"requests"`
}

// A Group is all requests, or those of one tenant or policy.
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
	Cost          *Cost    `json:"cost,omitempty"` // absent without prices
	ChargedUSD    float64  `json:"charged_usd,omitempty"`
	Cache         Cache    `json:"cache"`
	Overhead      Quantile `json:"overhead_ms"` // of requests that were sent on
	Retrieval     Quantile `json:"retrieval_ms"`
	FirstByte     Quantile `json:"first_byte_ms"`
	Duration      Quantile `json:"duration_ms"`
}

// Tokens are what was added to prompts, and what answers told that they used.
type Tokens struct {
	Context     int64 `json:"context"`      // added by injection
	ToolResults int64 `json:"tool_results"` // added by tools
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input"`          // part of Input
	CacheWrite  int64 `json:"cache_write,omitempty"` // likewise: written into the upstream's cache
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"` // part of Output
	Told        int   `json:"told"`      // answers that told what they used
	Untold      int   `json:"untold"`    // and that did not
}

// A Cost is what requests cost by the prices of a configuration, in US dollars.
type Cost struct {
	USD        float64 `json:"usd"`
	ContextUSD float64 `json:"context_usd"` // of the tokens that were added, as if none had been in the upstream's cache
	Priced     int     `json:"priced_requests"`
	Unpriced   int     `json:"unpriced_requests"` // whose model has no price, or whose answer did not tell what it used
}

// A Cache is how often a search was found in the cache.
type Cache struct {
	Hits    int     `json:"hits"`
	Lookups int     `json:"lookups"`
	Share   float64 `json:"share"`
}

// A Quantile is a median and what one in twenty exceeds, off by 1/32 at most.
type Quantile struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// An Unanswered is how many questions found nothing, of a tenant in the bases that were searched.
type Unanswered struct {
	Tenant     string  `json:"tenant"`
	Knowledge  string  `json:"knowledge"` // ids with ", " between; "" if the log does not tell them
	Searched   int     `json:"searched"`
	NoMatch    int     `json:"no_match"`
	Irrelevant int     `json:"irrelevant"`
	Share      float64 `json:"share"`   // of the searched
	LastID     string  `json:"last_id"` // of the last such request, for sidenote explain
}

// Compared are chats in shadow mode, as they would have been, beside those that get sources.
type Compared struct {
	Shadow Side `json:"shadow"`
	Inject Side `json:"inject"`
}

// A Side is one of the two. Means are of the requests with something added.
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

// Tools are what models did with tools.
type Tools struct {
	Requests int   `json:"requests"`
	Rounds   int64 `json:"rounds"`
	Calls    int64 `json:"calls"`
	Tokens   int64 `json:"tokens"` // of the results
}

// A Stage is one of those that chats are answered in.
type Stage struct {
	Name     string   `json:"stage"`
	Called   int      `json:"called"`
	Failed   int      `json:"failed"`
	Input    int64    `json:"input_tokens"`
	Output   int64    `json:"output_tokens"`
	Duration Quantile `json:"duration_ms"`
}

// Report returns what was counted, largest first.
func (t *Tally) Report() *Report {
	r := &Report{
		Object: "log.report", Since: moment(t.Since), First: moment(t.first), Last: moment(t.last), Lines: t.lines,
		Outcomes: []Outcome{}, Reasons: []Reason{}, Unanswered: []Unanswered{},
		All: t.all.report("", t.priced()), Tenants: t.groups(t.tenants), Policies: t.groups(t.policies),
	}
	for _, name := range largest(t.outcomes, func(n int) int { return n }) {
		r.Outcomes = append(r.Outcomes, Outcome{name, t.outcomes[name], share(t.outcomes[name], t.lines.Requests)})
	}
	for _, name := range largest(t.reasons, func(n int) int { return n }) {
		r.Reasons = append(r.Reasons, Reason{name, t.reasons[name]})
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

// priced tells whether costs are told.
func (t *Tally) priced() bool { return len(t.Prices) > 0 }

// largest returns names by their numbers, the largest first.
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
		Tokens: Tokens{g.contextTokens, g.toolTokens, g.input, g.cachedInput, g.cacheWrite, g.output, g.reasoning, g.told, g.untold}, ChargedUSD: g.charged,
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
