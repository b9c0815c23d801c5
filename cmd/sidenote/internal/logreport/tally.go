// Package logreport summarizes Sidenote's log: how many chats got sources, what these cost, which
// questions nothing was found for, and what shadow mode would do.
package logreport

import (
	"strings"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
)

// Limits of the names that are counted separately. Further names count as others, so that no log
// needs more than some 20 MiB of memory.
const (
	maxNames = 500
	maxName  = 128 // bytes
	others   = "(others)"
)

// A Tally counts log lines. It is not safe for concurrent use.
type Tally struct {
	Since  time.Time         // older lines are not counted; zero: all are
	Prices budget.PriceTable // nil: no costs

	first, last time.Time
	lines       Lines
	all         group
	outcomes    counts
	reasons     counts
	misses      counts
	tenants     map[string]*group
	policies    map[string]*group
	models      map[string]*group // of chats
	unanswered  map[asked]*Unanswered
	shadow      side
	inject      side
	tools       Tools
	stages      map[string]*stage
}

// An asked identifies a tenant and the bases that were searched.
type asked struct{ tenant, knowledge string }

// counts are numbers by name.
type counts map[string]int

func (c *counts) add(name string) {
	if *c == nil {
		*c = counts{}
	}
	(*c)[known(*c, name)]++
}

// known returns the name under which something is counted.
func known[V any](in map[string]V, name string) string {
	name = clip(name)
	if _, ok := in[name]; !ok && len(in) >= maxNames {
		return others
	}
	return name
}

// clip truncates a name that is too long.
func clip(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}

// of returns the entry for a name, and adds it if needed.
func of[V any](in *map[string]*V, name string) *V {
	if *in == nil {
		*in = map[string]*V{}
	}
	name = known(*in, name)
	v := (*in)[name]
	if v == nil {
		v = new(V)
		(*in)[name] = v
	}
	return v
}

// Add counts a line; nil stands for one that is too long.
func (t *Tally) Add(text []byte) {
	t.lines.Read++
	l, what := parse(text)
	switch {
	case what == broken:
		t.lines.Broken++
	case what == other:
		t.lines.Other++
	case l.Time.Before(t.Since):
		t.lines.Before++
	default:
		t.lines.Requests++
		t.count(l)
	}
}

func (t *Tally) count(l *line) {
	if t.first.IsZero() || l.Time.Before(t.first) {
		t.first = l.Time
	}
	if l.Time.After(t.last) {
		t.last = l.Time
	}
	t.outcomes.add(l.Outcome)
	if l.Reason != "" {
		t.reasons.add(l.Reason)
	}
	if l.CacheMiss != "" {
		t.misses.add(l.CacheMiss)
	}
	cost := t.costOf(l)
	t.all.add(l, cost)
	of(&t.tenants, l.Tenant).add(l, cost)
	of(&t.policies, l.Policy).add(l, cost)
	if l.chat() && l.Model != "" {
		of(&t.models, l.Model).add(l, cost)
	}
	t.lookUp(l)
	switch {
	case l.shadow():
		t.shadow.add(l)
	case l.chat() && l.searched():
		t.inject.add(l)
	}
	if u := l.Tools; u != nil {
		t.tools.Requests++
		t.tools.Rounds, t.tools.Calls, t.tools.Tokens = t.tools.Rounds+u.Rounds, t.tools.Calls+u.Calls, t.tools.Tokens+u.Tokens
	}
	if l.Stages != nil {
		for i := range l.Stages.Called {
			of(&t.stages, l.Stages.Called[i].Name).add(&l.Stages.Called[i])
		}
	}
}

// lookUp counts a question that was searched for, by tenant and bases.
func (t *Tally) lookUp(l *line) {
	if !l.searched() {
		return
	}
	if t.unanswered == nil {
		t.unanswered = map[asked]*Unanswered{}
	}
	key := asked{clip(l.Tenant), clip(strings.Join(l.Knowledge, ", "))}
	if t.unanswered[key] == nil && len(t.unanswered) >= maxNames {
		key = asked{others, others}
	}
	u := t.unanswered[key]
	if u == nil {
		u = &Unanswered{Tenant: key.tenant, Knowledge: key.knowledge}
		t.unanswered[key] = u
	}
	u.Searched++
	switch l.Reason {
	case "no-match":
		u.NoMatch++
	case "irrelevant":
		u.Irrelevant++
	default:
		return
	}
	u.LastID = l.ID
}

// A cost is the cost of a request in US dollars.
type cost struct{ usd, context float64 }

// costOf returns the cost of a request, or nil if it is unknown: by the prices of the configuration
// or, without any, as charged.
func (t *Tally) costOf(l *line) *cost {
	if l.Usage != "found" {
		return nil
	}
	if len(t.Prices) == 0 {
		if l.ContextUSD == nil {
			return nil
		}
		return &cost{usd: l.Charged, context: *l.ContextUSD}
	}
	p, ok := t.Prices.Find(l.Model, strings.TrimSuffix(l.Model, "*"))
	if !ok || l.Model == "" {
		return nil
	}
	prices := p.Of(l.Tier)
	usd, err := prices.Cost(budget.Tokens{Input: l.Input, CachedInput: l.CachedInput, CacheWrite: l.CacheWrite, CacheWrite1h: l.CacheWrite1h, Output: l.Output})
	context, failed := prices.Cost(budget.Tokens{Input: l.ContextInput, CachedInput: l.ContextCached, CacheWrite: l.ContextCacheWrite, CacheWrite1h: l.ContextCacheWrite1h})
	if err != nil || failed != nil {
		return nil
	}
	return &cost{usd: float64(usd) / float64(budget.Dollar), context: float64(context) / float64(budget.Dollar)}
}

// A group counts some of the requests.
type group struct {
	requests, failed, chats, injected, noMatch, irrelevant int

	contextTokens, toolTokens             int64
	input, cachedInput, cacheWrite        int64
	output, reasoning                     int64
	contextInput, contextCached           int64 // of the answers that reported usage
	contextWritten                        int64
	told, untold                          int
	usd, contextUSD, charged              float64
	priced, unpriced                      int
	cacheHits, cacheMisses                int
	overhead, retrieval, firstByte, total report.Histogram
}

func (g *group) add(l *line, c *cost) {
	g.requests++
	if l.failed() {
		g.failed++
	}
	g.use(l, c)
	if l.Overhead > 0 {
		g.overhead.Add(milliseconds(l.Overhead))
	}
	if l.Retrieval > 0 {
		g.retrieval.Add(milliseconds(l.Retrieval))
	}
	if l.FirstByte > 0 {
		g.firstByte.Add(milliseconds(l.FirstByte))
	}
	g.total.Add(milliseconds(l.Total))
	switch l.Cache {
	case "hit":
		g.cacheHits++
	case "miss":
		g.cacheMisses++
	}
	if !l.chat() {
		return
	}
	g.chats++
	switch {
	case l.injected():
		g.injected++
		g.contextTokens += l.ContextTokens + l.EarlierTokens
	case l.Reason == "no-match":
		g.noMatch++
	case l.Reason == "irrelevant":
		g.irrelevant++
	}
}

// use counts the tokens that a request used, and their cost.
func (g *group) use(l *line, c *cost) {
	if l.Tools != nil {
		g.toolTokens += l.Tools.Tokens
	}
	switch l.Usage {
	case "":
	case "found":
		g.told++
	default:
		g.untold++
	}
	g.input, g.cachedInput, g.cacheWrite = g.input+l.Input, g.cachedInput+l.CachedInput, g.cacheWrite+l.CacheWrite
	g.output, g.reasoning = g.output+l.Output, g.reasoning+l.Reasoning
	g.contextInput, g.contextCached, g.contextWritten = g.contextInput+l.ContextInput, g.contextCached+l.ContextCached, g.contextWritten+l.ContextCacheWrite
	g.charged += l.Charged
	switch {
	case c != nil:
		g.priced++
		g.usd, g.contextUSD = g.usd+c.usd, g.contextUSD+c.context
	case l.Usage != "":
		g.unpriced++
	}
}

// A side is one of the two sides compared: chats in shadow mode, or those that get sources.
type side struct {
	requests, with, sources, hits, lookups int
	tokens                                 int64
	retrieval, overhead, firstByte         report.Histogram
}

func (s *side) add(l *line) {
	s.requests++
	if l.ContextTokens > 0 {
		s.with++
		s.tokens += l.ContextTokens + l.EarlierTokens
		s.sources += int(l.Sources)
	}
	if l.Cache == "hit" || l.Cache == "miss" {
		s.lookups++
	}
	if l.Cache == "hit" {
		s.hits++
	}
	if l.Retrieval > 0 {
		s.retrieval.Add(milliseconds(l.Retrieval))
	}
	if l.Overhead > 0 {
		s.overhead.Add(milliseconds(l.Overhead))
	}
	if l.FirstByte > 0 {
		s.firstByte.Add(milliseconds(l.FirstByte))
	}
}

// A stage counts the calls of one stage.
type stage struct {
	called, failed int
	input, output  int64
	took           report.Histogram
}

func (s *stage) add(l *stageLine) {
	s.called++
	switch l.Outcome {
	case "ok", "stopped", "empty":
	default:
		s.failed++
	}
	s.input, s.output = s.input+l.Input, s.output+l.Output
	s.took.Add(milliseconds(l.Took))
}
