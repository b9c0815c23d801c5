package proxy

import (
	"math"
	"strings"

	"sidenote/proxy/answer"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// A cacheWatch holds what the cache guard observes of a request. The zero cacheWatch is that of a
// request that it does not observe.
type cacheWatch struct {
	guard     *cacheguard.Guard
	prompt    cacheguard.Prompt
	least     int64 // these five as in cacheguard.Observation
	caches    bool
	marked    bool
	maySwitch bool
	auto      string
	better    rewrite.Placement // see betterPlacement
	told      bool              // the answer told the cached tokens
}

// PromptCaches returns what is known of the prompt caches of upstreams since the last reload.
func (s *Server) PromptCaches() []cacheguard.Status { return s.setup.Load().guard.Status() }

// keepCache changes the placement of a chat if sources were found to break the upstream's prompt
// cache.
func (x *exchange) keepCache(a *attempt) {
	if x.policy.CacheGuard != tenant.GuardSwitch || !x.setup.guard.AnyBroken() {
		return
	}
	m := x.setup.rewriter.Models.Model(a.req.Model)
	if !x.setup.guard.Broken(cacheguard.Key{Upstream: x.policy.Upstream, Model: m.Row}) {
		return
	}
	if to := betterPlacement(&a.policy, a.req, a.policy.CacheOf(&m, a.req.API)); to != "" {
		a.policy = a.policy.WithPlacement(to, "cache_guard")
	}
}

// betterPlacement returns the placement that keeps a prompt cache which that of the policy breaks,
// "" if there is none. A cache of which the model table does not know was seen by the guard.
func betterPlacement(p *rewrite.Policy, req *chat.Request, c tokens.PromptCache) rewrite.Placement {
	automatic, has := rewrite.Automatic(c), p.Placement
	if has == rewrite.PlaceMarker && len(req.Markers()) == 0 {
		has = rewrite.PlaceSystem
	}
	switch has {
	case rewrite.PlaceSystem:
		if automatic == rewrite.PlaceSystem {
			return rewrite.PlaceSplit
		}
		return rewrite.PlaceAuto
	case rewrite.PlaceAuto:
		if automatic == rewrite.PlaceSystem {
			return rewrite.PlaceSplit
		}
	case rewrite.PlaceSplit:
		if c.Marked() && p.CacheMarks == "" {
			return rewrite.PlaceAuto // with a mark
		}
	}
	return ""
}

// leastCached returns the fewest tokens that the upstream of a model caches, by the row of the
// model table; 0 if that is not known to be more than usual. Source: ai.google.dev, "Context caching".
func leastCached(row string) int64 {
	switch {
	case strings.HasPrefix(row, "gemini-2.5"):
		return 2048
	case strings.HasPrefix(row, "gemini"):
		return 4096
	}
	return 0
}

// watchCache prepares for telling the guard of this request, which was sent as it is: in one call
// and with its whole conversation.
func (x *exchange) watchCache() {
	req, m := x.attempt.req, &x.report.Rewrite.Model
	if x.reader == nil || x.parser == nil || req == nil || m.Row == "" || len(req.Messages) == 0 || x.policy.CacheGuard == tenant.GuardOff ||
		x.tools != nil || x.staging != nil || len(x.report.Calls) > 1 || req.History.Continued() {
		return
	}
	w := &x.watch
	w.guard, w.maySwitch = x.setup.guard, x.policy.CacheGuard == tenant.GuardSwitch
	cache := x.attempt.policy.CacheOf(m, req.API)
	w.least, w.caches, w.better = leastCached(m.Row), cache.Known(), betterPlacement(&x.attempt.policy, req, cache)
	w.auto = string(rewrite.Automatic(cache))
	if cache.Marked() && x.attempt.policy.CacheMarks != rewrite.MarksOff {
		w.auto += " with a mark"
	}
	w.marked = cache.Marked() || m.PromptCache.Marked() || req.API == chat.Messages && cache != tokens.CachePrefix
	for _, name := range [...]string{x.policy.Tenant, x.policy.Upstream, req.Model} {
		w.extend([]byte(name))
	}
	for _, list := range req.Tools {
		w.extend(list.Of(req.Body))
	}
	w.extend(req.Format.Of(req.Body))
	for _, message := range req.Messages {
		w.extend(message.Of(req.Body))
	}
}

// extend adds a part to the prompt.
func (w *cacheWatch) extend(part []byte) {
	if w.marked {
		part = chat.WithoutCacheMarks(part)
	}
	w.guard.Extend(&w.prompt, part)
}

// tellGuard tells the guard of a request whose answer has ended, and logs what it finds.
func (a *account) tellGuard() {
	w, r := &a.watch, &a.report
	if w.guard == nil || r.UsageFound != answer.UsageFound && r.UsageFound != answer.UsagePartial {
		return
	}
	o := cacheguard.Observation{
		Time: r.Time, Prompt: w.prompt, Input: r.Usage.Input, Cached: r.Usage.CachedInput, Written: r.Usage.CacheWrite, Told: w.told,
		Least: w.least, Caches: w.caches, Marked: w.marked, MaySwitch: w.maySwitch, Auto: w.auto,
	}
	if r.Injected() {
		w.added(&o, &r.Rewrite.Ledger)
	}
	f, ok := w.guard.Observe(cacheguard.Key{Upstream: r.Upstream, Model: r.Rewrite.Model.Row}, &o)
	if !ok {
		return
	}
	comparedWith := "requests without sources"
	if f.Controls == 0 {
		comparedWith = "repeated part of the prompts"
	}
	a.server.log.Warn("sources break the prompt cache", "upstream", f.Upstream, "model", f.Model, "placement", f.Placement,
		"cached_share", rounded(f.Share), "expected_share", rounded(f.Expected), "requests", f.Requests, "compared_with", comparedWith, "fix", remedy(&f))
}

// added sets in o what was added to the prompt, and which placement would be better.
func (w *cacheWatch) added(o *cacheguard.Observation, l *rewrite.Ledger) {
	marked := l.CacheMark == rewrite.MarkSet || l.CacheMark == rewrite.MarkApplication
	o.Placement, o.Added = string(l.Placement), int64(l.Grown())
	if l.Placement == rewrite.PlaceSystem || l.Placement == rewrite.PlaceSplit && !marked {
		o.Mend = string(w.better)
	}
	if marked {
		o.Placement += " with a mark"
	}
}

// remedy says what becomes of a finding, or what to do.
func remedy(f *cacheguard.Finding) string {
	switch {
	case f.Switched:
		return "switched to placement " + f.Mend + " until the next reload"
	case f.Mend == string(rewrite.PlaceAuto):
		return "placement: auto (here split)"
	case f.Mend != "":
		return "placement: " + f.Mend
	case f.Placement == string(rewrite.PlaceInstructions):
		return "history: input, if applications send whole conversations"
	}
	return "no other placement helps; ask the upstream how it caches prompts"
}

// rounded returns a share with two digits.
func rounded(share float64) float64 { return math.Round(100*share) / 100 }
