package proxy

import (
	"bytes"
	"math"

	"sidenote/proxy/answer"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A cacheWatch holds what the guard of prompt caches is told of a request when its answer has
// ended. The zero cacheWatch is that of a request that it is not told of.
type cacheWatch struct {
	guard     *cacheguard.Guard
	prompt    cacheguard.Prompt
	caches    bool // these three as in cacheguard.Observation
	marked    bool
	maySwitch bool
	movable   bool // the policy's placement may be changed
	told      bool // the answer told the cached tokens
}

// PromptCaches returns what is known of the prompt caches of upstreams since the last reload.
func (s *Server) PromptCaches() []cacheguard.Status { return s.setup.Load().guard.Status() }

// keepCache changes the placement of a chat if sources were found to break the upstream's prompt
// cache.
func (x *exchange) keepCache(a *attempt) {
	p := &a.policy
	if x.policy.CacheGuard != tenant.GuardSwitch || !x.setup.guard.AnyBroken() || !movable(p) {
		return
	}
	m := x.setup.rewriter.Models.Model(a.req.Model)
	if !x.setup.guard.Broken(cacheguard.Key{Upstream: x.policy.Upstream, Model: m.Row}) {
		return
	}
	to := rewrite.PlaceAuto
	if rewrite.Automatic(p.CacheOf(&m, a.req.API)) == rewrite.PlaceSystem { // no cache is known, but the guard saw one
		to = rewrite.PlaceSplit
	}
	if to != p.Placement {
		*p = p.WithPlacement(to, "cache_guard")
	}
}

// movable reports whether the guard may change the placement of a policy.
func movable(p *rewrite.Policy) bool {
	return p.Placement == rewrite.PlaceSystem || p.Placement == rewrite.PlaceAuto
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
	w.guard, w.maySwitch, w.movable = x.setup.guard, x.policy.CacheGuard == tenant.GuardSwitch, movable(&x.attempt.policy)
	cache := x.attempt.policy.CacheOf(m, req.API)
	w.caches, w.marked = cache.Known(), cache.Marked() || req.API == chat.Messages
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
		part = withoutMarks(part)
	}
	w.guard.Extend(&w.prompt, part)
}

// withoutMarks returns a part of a prompt without the marks of the application, which it may move
// from turn to turn.
func withoutMarks(part []byte) []byte {
	for _, name := range [...]string{`"cache_control"`, `"prompt_cache_breakpoint"`} {
		for from := 0; ; {
			at := bytes.Index(part[from:], []byte(name))
			if at < 0 {
				break
			}
			start, value := from+at, bytes.TrimLeft(part[from+at+len(name):], ": \t\r\n")
			end := bytes.IndexByte(value, '}')
			if end < 0 || value[0] != '{' {
				from = start + len(name)
				continue
			}
			before, after := bytes.TrimRight(part[:start], " \t\r\n"), bytes.TrimLeft(value[end+1:], " \t\r\n")
			if bytes.HasSuffix(before, []byte(",")) {
				before = before[:len(before)-1]
			} else {
				after = bytes.TrimPrefix(after, []byte(","))
			}
			part, from = append(bytes.Clone(before), after...), len(before)
		}
	}
	return part
}

// tellGuard tells the guard of a request whose answer has ended, and logs what it finds.
func (a *account) tellGuard() {
	w, r := &a.watch, &a.report
	if w.guard == nil || r.UsageFound != answer.UsageFound && r.UsageFound != answer.UsagePartial {
		return
	}
	o := cacheguard.Observation{
		Time: r.Time, Prompt: w.prompt, Input: r.Usage.Input, Cached: r.Usage.CachedInput, Written: r.Usage.CacheWrite, Told: w.told,
		Caches: w.caches, Marked: w.marked, MaySwitch: w.maySwitch,
	}
	if l := &r.Rewrite.Ledger; r.Injected() {
		if o.Placement, o.Added = string(l.Placement), int64(l.Used); w.movable && l.Placement == rewrite.PlaceSystem {
			o.Mend = string(rewrite.PlaceSplit)
		}
	}
	f, ok := w.guard.Observe(cacheguard.Key{Upstream: r.Upstream, Model: r.Rewrite.Model.Row}, &o)
	if !ok {
		return
	}
	comparedWith, fix := "requests without sources", "placement: "+f.Mend
	if f.Controls == 0 {
		comparedWith = "repeated part of the prompts"
	}
	switch {
	case f.Switched:
		fix = "switched to placement " + f.Mend + " until the next reload"
	case f.Mend == "":
		fix = "none by placement; set cache_marks: auto, or ask the upstream"
	}
	a.server.log.Warn("sources break the prompt cache", "upstream", f.Upstream, "model", f.Model, "placement", f.Placement,
		"cached_share", rounded(f.Share), "expected_share", rounded(f.Expected), "requests", f.Requests, "compared_with", comparedWith, "fix", fix)
}

// rounded returns a share with two digits.
func rounded(share float64) float64 { return math.Round(100*share) / 100 }
