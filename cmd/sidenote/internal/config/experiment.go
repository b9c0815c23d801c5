package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/experiment"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// An Experiment gives a share of the requests of a policy another policy. Policies that extend this
// one do not inherit it.
type Experiment struct {
	Name       Name       `yaml:"name" need:"true"`
	Policy     Name       `yaml:"policy" need:"true"`
	Share      percentage `yaml:"share" need:"true"`
	Unit       string     `yaml:"unit" of:"conversation|tenant|user_header"`
	UserHeader userHeader `yaml:"user_header,omitempty"`
	Until      Date       `yaml:"until,omitempty"` // last day
	Goal       string     `yaml:"goal" of:"cited|citations|unknown_citations|support|silence|context_tokens|tokens|cost|retrieval_ms|total_ms|repeated|feedback"`
	Requests   Count      `yaml:"requests" min:"100" max:"100M"` // planned
}

// SetDefaults replaces e by the defaults, so that nothing is inherited.
func (e *Experiment) SetDefaults() {
	*e = Experiment{Unit: string(experiment.Conversation), Goal: experiment.Cited.String(), Requests: experiment.DefaultRequests}
}

// used reports whether there is an experiment.
func (e *Experiment) used() bool { return e.Policy != "" }

// checkExperiments refuses experiments that cannot run, or that would let a tenant do more than its
// policy does.
func checkExperiments(c checker) {
	names := map[Name]string{}
	for _, name := range sortedKeys(c.Policies) {
		p, key := c.Policies[name], "policies."+string(name)+".experiment"
		e := p.Experiment
		if !e.used() {
			continue
		}
		if other, taken := names[e.Name]; taken && e.Name != "" {
			c.problem(key+".name", "%q is also the name of an experiment at %s", e.Name, c.Place(other))
		}
		names[e.Name] = key + ".name"
		if e.Share <= 0 || e.Share >= 1 {
			if !refused(c.Config, key+".share") {
				c.problem(key+".share", "%s would leave one policy without requests; choose a share between 0%% and 100%%, such as 20%%", must(e.Share.MarshalText()))
			}
		}
		checkUnit(c, key, e)
		switch b, ok := c.Policies[e.Policy]; {
		case e.Policy == name:
			c.problem(key+".policy", "%q is this policy itself; name another one", e.Policy)
		case !ok:
			known(c.Config, key+".policy", "policy", e.Policy, c.Policies)
		case b.Experiment.used():
			c.problem(key+".policy", "%q has an experiment of its own, %q, and a tenant can be in one at a time", e.Policy, b.Experiment.Name)
		default:
			if what := c.stronger(name, e.Policy); what != "" {
				c.problem(key+".policy", "%q is stronger than %q: %s; an experiment may not widen what a tenant gets", e.Policy, name, what)
			}
		}
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

// checkUnit checks the header that names users.
func checkUnit(c checker, key string, e Experiment) {
	switch needs := e.Unit == string(experiment.UserHeader); {
	case needs && e.UserHeader == "":
		c.problem(key+".user_header", "is missing; unit user_header needs the name of a header, as in X-User-Id")
	case !needs && e.UserHeader != "":
		c.problem(key+".user_header", "%q has no effect with unit %s; set unit: user_header", e.UserHeader, e.Unit)
	}
}

// A userHeader is the name of a header that names a user.
type userHeader string

// headerPattern is never changed.
var headerPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// UnmarshalText refuses headers with credentials, and those of Sidenote.
func (h *userHeader) UnmarshalText(text []byte) error {
	lower := strings.ToLower(string(text))
	if !headerPattern.Match(text) || strings.HasPrefix(lower, "sidenote-") ||
		slices.Contains([]string{"authorization", "api-key", "x-api-key", "cookie", "proxy-authorization"}, lower) {
		return fmt.Errorf("%q is not the name of a header that names a user; write it as in X-User-Id", text)
	}
	*h = userHeader(text)
	return nil
}

// stronger says by which setting policy b lets a tenant do more than policy a, "" if by none.
func (c checker) stronger(a, b Name) string {
	p, q := c.Policies[a], c.Policies[b]
	for _, base := range q.Knowledge {
		if !slices.Contains(p.Knowledge, base) && (len(p.Knowledge) > 0 || c.leavesWithoutBase(a)) {
			return fmt.Sprintf("knowledge has the base %q", base)
		}
	}
	switch {
	case c.upstreamOf(a) != c.upstreamOf(b):
		return fmt.Sprintf("upstream is %q, not %q", c.upstreamOf(b), c.upstreamOf(a))
	case !slices.Equal(p.Models, q.Models):
		return "models are others"
	case !slices.Equal(p.Routes, q.Routes):
		return "routes are others"
	case !reflect.DeepEqual(allFilters(p.Filters), allFilters(q.Filters)):
		return "filters are others"
	case q.MaxRewriteBytes > p.MaxRewriteBytes:
		return fmt.Sprintf("max_rewrite_bytes is %d, more than %d", q.MaxRewriteBytes, p.MaxRewriteBytes)
	case q.CacheDiagnostics > p.CacheDiagnostics:
		return fmt.Sprintf("cache_diagnostics is %s, more than %s", must(q.CacheDiagnostics.MarshalText()), must(p.CacheDiagnostics.MarshalText()))
	}
	own := c.upstreamOf(a)
	return cmp.Or(otherHelper(own, p.Treatment, q.Treatment), strongerLimits(p.Spending, q.Spending), strongerTreatment(p.Treatment, q.Treatment), strongerOverrides(own, p.Overrides, q.Overrides))
}

// leavesWithoutBase reports whether a tenant has no base under a policy that lists none. Without tenants
// such a policy has all bases, and tenants may list their own.
func (c checker) leavesWithoutBase(policy Name) bool {
	for _, t := range c.Tenants {
		if t.policyName() == policy && len(t.Knowledge) == 0 {
			return true
		}
	}
	return false
}

// otherHelper says if q sends texts to an upstream to which p does not, besides their own one.
func otherHelper(own Name, p, q Treatment) string {
	used := p.helperUpstreams()
	for _, up := range q.helperUpstreams() {
		if up != own && !slices.Contains(used, up) {
			return fmt.Sprintf("planner, rerank, grade or stages use upstream %q", up)
		}
	}
	return ""
}

// helperUpstreams lists the upstreams to which a treatment sends texts besides that of the policy.
func (t Treatment) helperUpstreams() (names []Name) {
	if t.Planner.Model != Off {
		names = append(names, t.Planner.Upstream)
	}
	if t.Grade.By != Off {
		names = append(names, t.Grade.Upstream)
	}
	names = append(names, t.Rerank.Upstream)
	for _, s := range t.Stages.Chain {
		names = append(names, s.Upstream)
	}
	return slices.DeleteFunc(names, func(up Name) bool { return up == "" || up == Off })
}

// strongerLimits compares limits, of which 0 is none.
func strongerLimits(p, q Spending) string {
	if q.MaxOutput != lower(p.MaxOutput, q.MaxOutput) {
		return more("max_output_tokens", int64(p.MaxOutput), int64(q.MaxOutput))
	}
	least, of := BothLimits(p.Limits, q.Limits), reflect.TypeFor[Limits]()
	for i := range of.NumField() {
		have, want := reflect.ValueOf(q.Limits).Field(i), reflect.ValueOf(least).Field(i)
		if have.Int() != want.Int() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
			if of.Field(i).Type == reflect.TypeFor[USD]() {
				return fmt.Sprintf("limits.%s is larger", name)
			}
			return more("limits."+name, reflect.ValueOf(p.Limits).Field(i).Int(), have.Int())
		}
	}
	return ""
}

func more(name string, p, q int64) string {
	if q == 0 {
		return fmt.Sprintf("%s is not limited, and there %d", name, p)
	}
	return fmt.Sprintf("%s is %d, more than %d", name, q, p)
}

// strongerTreatment compares what a chat may cost, and what callers see.
func strongerTreatment(p, q Treatment) string {
	for _, l := range []struct {
		name string
		p, q Count
	}{
		{"context_tokens", p.ContextTokens, q.ContextTokens},
		{"chunks.max_tokens", p.Chunks.MaxTokens, q.Chunks.MaxTokens},
		{"tools.max_tokens", p.Tools.MaxTokens, q.Tools.MaxTokens},
		{"tools.max_rounds", p.Tools.MaxRounds, q.Tools.MaxRounds},
	} {
		if l.q > l.p {
			return more(l.name, int64(l.p), int64(l.q))
		}
	}
	order := []report.Expose{report.ExposeNone, report.ExposeIDs, report.ExposeNames}
	if slices.Index(order, q.Expose) > slices.Index(order, p.Expose) {
		return fmt.Sprintf("expose is %s, not %s", q.Expose, p.Expose)
	}
	return ""
}

// strongerOverrides compares the overrides, which must be for the same requests. own is the upstream of
// both policies.
func strongerOverrides(own Name, p, q []Override) string {
	same := func(a, b Override) bool {
		return slices.Equal(a.Models, b.Models) && slices.Equal(a.Routes, b.Routes) && reflect.DeepEqual(allFilters(a.Filters), allFilters(b.Filters))
	}
	if !slices.EqualFunc(p, q, same) {
		return "overrides are for other models or routes, or have other filters"
	}
	for i := range p {
		if what := cmp.Or(strongerTreatment(p[i].Treatment, q[i].Treatment), otherHelper(own, p[i].Treatment, q[i].Treatment)); what != "" {
			return "overrides[" + itoa(i) + "]: " + what
		}
	}
	return ""
}

// weaker returns policy B of an experiment as tenants of policy p get it: with p's access and
// spending.
func (c *Config) weaker(p Policy) Policy {
	b := c.policy(p.Experiment.Policy)
	b.Extends, b.Upstream, b.Routes, b.Models, b.Filters, b.Spending = "", p.Upstream, p.Routes, p.Models, p.Filters, p.Spending
	b.MaxRewriteBytes = p.MaxRewriteBytes
	if b.CacheDiagnostics > p.CacheDiagnostics {
		b.CacheDiagnostics = p.CacheDiagnostics
	}
	return b
}

// addExperiment gives a resolved policy and its overrides the experiment of p, a tenant's complete
// policy. own says that the tenant has knowledge of its own instead of the policies'.
func (c *Config) addExperiment(out *tenant.Policy, name Name, p Policy, own bool) {
	if !p.Experiment.used() {
		return
	}
	b := c.weaker(p)
	if own || len(b.Knowledge) == 0 {
		b.Knowledge = p.Knowledge
	}
	b.OnEmpty = b.rewritePolicy(name).Empty()
	b.Overrides = slices.Clone(b.Overrides)
	for i := range b.Overrides {
		b.Overrides[i].OnEmpty = b.with(b.Overrides[i]).rewritePolicy(name).Empty()
	}
	settings := c.experimentSettings(c.Tenants[name].policyName())
	pair := func(of *tenant.Policy, b Policy, overrides []tenant.Override) *tenant.Policy {
		with := resolvePolicy(c, name, b)
		with.Name, with.Overrides = string(p.Experiment.Policy), overrides
		seal(with)
		of.Experiment = &tenant.Experiment{Settings: settings, B: with}
		return with
	}
	var overrides []tenant.Override // for the hash, as if b were the tenant's policy
	for i, o := range out.Overrides {
		overrides = append(overrides, tenant.Override{Models: o.Models, Routes: o.Routes, Policy: pair(o.Policy, b.with(b.Overrides[i]), nil)})
	}
	pair(out, b, overrides)
}

// experimentSettings returns the settings of the experiment of a policy. The hashes are those for no
// tenant, so that they are the same for all.
func (c *Config) experimentSettings(policy Name) experiment.Settings {
	p := c.policy(policy)
	e := p.Experiment
	goal, err := experiment.ParseMeasure(e.Goal)
	if err != nil {
		panic("BUG: a goal was not checked: " + err.Error())
	}
	hash := func(p Policy) string {
		whole := []string{}
		for _, o := range append([]Policy{p}, p.each()...) {
			of := resolvePolicy(c, "", o)
			seal(of)
			whole = append(whole, of.Hash)
		}
		return shortHash(strings.Join(whole, " "))
	}
	return experiment.Settings{
		Name: string(e.Name), Share: float64(e.Share), Unit: experiment.Unit(e.Unit), Header: string(e.UserHeader), Until: e.Until.End(), Goal: goal, Requests: int(e.Requests),
		PolicyA: string(policy), HashA: hash(p), PolicyB: string(e.Policy), HashB: hash(c.weaker(p)),
	}
}

// each returns the policy as changed by each of its overrides.
func (p Policy) each() (all []Policy) {
	for _, o := range p.Overrides {
		all = append(all, p.with(o))
	}
	return all
}

// Experiments lists the experiments of all policies, by name.
func (c *Config) Experiments() (all []experiment.Settings) {
	for _, name := range sortedKeys(c.Policies) {
		if p := c.Policies[name]; p.Experiment.used() {
			all = append(all, c.experimentSettings(name))
		}
	}
	slices.SortFunc(all, func(a, b experiment.Settings) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// overExperiments lists the experiments that have ended.
func overExperiments(c *Config, now time.Time) (over strictyaml.Problems) {
	for _, name := range sortedKeys(c.Policies) {
		e := c.Policies[name].Experiment
		if end := e.Until.End(); !end.IsZero() && !now.Before(end) {
			key := "policies." + string(name) + ".experiment.until"
			over = append(over, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: fmt.Sprintf("%s has passed; all requests get policy %s", e.Until.Format(time.DateOnly), name)})
		}
	}
	return over
}
