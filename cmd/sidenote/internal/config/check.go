package config

import (
	"maps"
	"net/url"
	"slices"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A checker reports problems of a Config that a loader has filled.
type checker struct{ delegation }

// check reports values that conflict. It also fills in policies and tenants as far as they are
// valid.
func (c checker) check(offline bool) {
	c.checkListeners()
	c.checkUpstreams(offline)
	checkModels(c.Models, c.problem)
	c.checkState()
	c.checkBases()
	c.checkEmbeddings()
	c.checkRedis()
	c.expandPolicies()
	c.checkPolicies()
	c.checkTenants(offline)
	checkExperiments(c)
	checkAllowedModels(c)
	checkCallers(c)
	checkBudgets(c)
	c.checkDelegated()
	c.checkIdentity(offline)
	if c.ShutdownDelay != 0 && c.ShutdownDelay >= c.ShutdownGrace {
		c.problem("shutdown_delay", "%s is part of shutdown_grace, %s, and leaves nothing of it", c.ShutdownDelay, c.ShutdownGrace)
	}
}

// taken reports two listeners on one port, at the key that the user wrote.
func (c checker) taken(key string, at Address, other string, otherAt Address) {
	_, written := c.places[key]
	first, otherWritten := c.places[other]
	switch {
	case written && otherWritten:
		c.problem(key, "%s is taken by %s, at %s", at, other, first.Place)
	case otherWritten:
		c.problem(other, "%s is taken by %s, which is there by default", otherAt, key)
	default:
		c.problem(key, "%s is taken by %s", at, other)
	}
}

// PortOf returns the port of a URL as a number without leading zeros.
func PortOf(u *url.URL) string { return portOf(u) }

const defaultName = Name("default")

// upstreams returns all upstreams by name.
func (c *Config) upstreams() map[Name]Upstream {
	all := map[Name]Upstream{}
	maps.Copy(all, c.Upstreams)
	if c.Upstream.BaseURL.URL != nil {
		all[defaultName] = c.Upstream
	}
	return all
}

func (c checker) checkUpstreams(offline bool) {
	_, written := c.places["upstream"]
	_, flagged := c.places["upstream.base_url"]
	if _, twice := c.Upstreams[defaultName]; twice && (written || flagged) {
		c.problem("upstreams.default", "is also what upstream defines; keep one")
	}
	if len(c.Upstreams) == 0 && !written && !flagged && !offline {
		c.problem("upstream", "is missing; name the API that requests go to, as in --upstream https://api.openai.com")
	}
	if c.Upstream.BaseURL.URL != nil {
		c.checkOwnAddress("upstream.base_url", c.Upstream)
	}
	for _, name := range sortedKeys(c.Upstreams) {
		if u := c.Upstreams[name]; u.BaseURL.URL != nil {
			c.checkOwnAddress("upstreams."+string(name)+".base_url", u)
		}
	}
}

// checkOwnAddress refuses an upstream that is one of Sidenote's own listeners: its requests would
// loop.
func (c checker) checkOwnAddress(key string, u Upstream) {
	for _, base := range u.BaseURL.all() {
		for _, own := range c.listeners() {
			if portLeads(base, own.address) {
				c.problem(key, "%s is Sidenote's own address", base)
				return
			}
		}
	}
}

func (c checker) checkPolicies() {
	for _, name := range sortedKeys(c.Policies) {
		p, key := c.Policies[name], "policies."+string(name)
		if p.Upstream != "" {
			known(c.Config, key+".upstream", "upstream", p.Upstream, c.upstreams())
		}
		c.checkKnowledge(key+".knowledge", p.Knowledge)
		checkTreatment(c, key, p.Treatment)
		p.Spending.Check(key, p.Grounding == rewrite.GroundingStrict, c.problem)
		c.checkRecord(key+".record", p.Record)
		checkOverrides(c, key, p)
	}
}

// checkBudgets refuses limits that could not be enforced.
func checkBudgets(c checker) {
	var limited []Limits
	if p := c.policy(defaultName); len(c.Tenants) == 0 && p.Limits != (Limits{}) {
		limited = append(limited, p.Limits)
	}
	for _, t := range c.Tenants {
		if l := BothLimits(c.policy(t.policyName()).Limits, t.Limits); l != (Limits{}) {
			limited = append(limited, l)
		}
	}
	c.Budgets.Check(c.Redis.Used() || c.Budgets.Redis.URL.Shown() != "", limited, c.problem)
}

// checkRepeat refuses to repeat sources where they cannot stand in earlier messages.
func checkRepeat(c checker, key string, t Treatment) {
	switch {
	case t.Placement == rewrite.PlaceSystem || t.Placement == rewrite.PlaceMarker:
		c.problem(key+".sources.repeat", "keep adds sources to earlier messages of the user, and placement is %s; set placement: auto, split or last_user", t.Placement)
	case t.Sources.Format == string(rewrite.SourcesSearchResult):
		c.problem(key+".sources.repeat", "keep repeats text, and sources.format is search_result; set format: tags or plain")
	}
}

func checkTreatment(c checker, key string, t Treatment) {
	if t.Rules == Off && t.Template.HasRules() {
		c.problem(key+".rules", "is off, and the template has {{RULES}}; remove one of them")
	}
	if t.Sources.Format == string(rewrite.SourcesSearchResult) && t.Expose != report.ExposeNames {
		c.problem(key+".sources.format", "search_result shows titles in the model's own citations, and expose is %s; set expose: names", t.Expose)
	}
	if t.Placement == rewrite.PlaceMarker && t.CacheMarks == rewrite.MarksAuto {
		c.problem(key+".cache_marks", "auto sets a mark behind the application's text, and placement is marker, within it; set placement: auto, split or system, or cache_marks: off")
	}
	if t.Sources.Repeat == string(rewrite.RepeatKeep) {
		checkRepeat(c, key, t)
	}
	if t.Retrieval.TopK > t.Retrieval.NumCandidates {
		c.problem(key+".retrieval.top_k", "%d is more than num_candidates, %d", t.Retrieval.TopK, t.Retrieval.NumCandidates)
	}
	checkPlanner(c, key+".planner", t.Planner)
	checkRerank(c, key+".rerank", t.Rerank)
	checkGrade(c, key, t)
	checkAnnotations(c, key+".annotations", t.Annotations)
	checkSkip(c, key+".skip", t.Skip)
	checkStages(c, key, t)
	checkChunks(t.Renderers, c.problem, func(i int) string { return key + ".renderers[" + itoa(i) + "]" })
	names := map[Name]bool{"sources": true}
	for i, part := range t.Components {
		if names[part.Name] && part.Name != "" {
			c.problem(key+".components["+itoa(i)+"].name", "%q is taken", part.Name)
		}
		names[part.Name] = true
	}
}

func (c checker) checkKnowledge(key string, names []Name) {
	for i, k := range names {
		known(c.Config, key+"["+itoa(i)+"]", "base", k, c.Knowledge)
	}
}

// known reports a name that is not defined.
func known[V any](c *Config, key, what string, name Name, defined map[Name]V) bool {
	if _, ok := defined[name]; ok || name == "" {
		return ok
	}
	c.problem(key, "no %s is named %q%s", what, name, strictyaml.DidYouMean(string(name), Texts(sortedKeys(defined))))
	return false
}

func sortedKeys[V any](m map[Name]V) []Name { return slices.Sorted(maps.Keys(m)) }
