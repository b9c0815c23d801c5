package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/experiment"
)

// twoPolicies returns a configuration with an experiment of policy a. The arguments are settings of
// the experiment, a and b.
func twoPolicies(of, a, b string) string {
	return `upstreams: {one: {base_url: https://one.test}, two: {base_url: https://two.test}}
knowledge: {docs: ./docs, hr: ./hr}
tenants: {t: {policy: a, keys: [{sha256: ` + strings.Repeat("0", 64) + `}]}}
policies:
  a:
    upstream: one
    knowledge: [docs]
    experiment: {` + of + `}
    ` + a + `
  b:
    extends: a
    ` + b + "\n"
}

func loadText(text string) (*config.Config, error) {
	return config.Load(disk{"c.yaml": text}.source("c.yaml"))
}

// An experiment that would widen what a tenant gets, or that cannot run, is refused at its key.
func TestExperimentsThatWidenAreRefused(t *testing.T) {
	const right = "name: x, policy: b, share: 20%"
	f := func(of, a, b, want string) {
		t.Helper()
		_, err := loadText(twoPolicies(of, a, b))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s / %s / %s:\ngot  %v\nwant %s", of, a, b, err, want)
		}
	}
	f("name: x, policy: c, share: 20%", "", "", `c.yaml:8:27: policies.a.experiment.policy: no policy is named "c"`)
	f("name: x, policy: a, share: 20%", "", "", `c.yaml:8:27: policies.a.experiment.policy: "a" is this policy itself`)
	f("name: x, policy: b, share: 0%", "", "", `c.yaml:8:38: policies.a.experiment.share: 0% would leave one policy without requests`)
	f("name: x, policy: b, share: 100%", "", "", `policies.a.experiment.share: 100% would leave`)
	f("name: x, policy: b, share: 120%", "", "", `c.yaml:8:45: policies.a.experiment.share: "120%" is not a share`)
	f("name: x, policy: b", "", "", `policies.a.experiment.share: is missing`)
	f(right+", until: soon", "", "", `policies.a.experiment.until: "soon" is not a date`)
	f(right+", unit: user_header", "", "", `policies.a.experiment.user_header: is missing`)
	f(right+", user_header: X-User-Id", "", "", `policies.a.experiment.user_header: "X-User-Id" has no effect`)
	f(right+", unit: user_header, user_header: Authorization", "", "", `"Authorization" is not the name of a header that names a user`)
	f(right+", goal: joy", "", "", `policies.a.experiment.goal: "joy" is none of`)
	f(right, "", "experiment: {name: y, policy: a, share: 5%}", `policies.a.experiment.policy: "b" has an experiment of its own, "y", and a tenant can be in one at a time`)
	f(right, "", "upstream: two", `c.yaml:8:27: policies.a.experiment.policy: "b" is stronger than "a": upstream is "two", not "one"`)
	f(right, "", "rerank: {upstream: two, model: m}", `planner, rerank, grade or stages use upstream "two"`)
	f(right, "", "knowledge: [docs, hr]", `knowledge has the base "hr"`)
	f(right, "context_tokens: 1000", "context_tokens: 1001", "context_tokens is 1001, more than 1000")
	f(right, "limits: {tokens_per_day: 5k}", "limits: {tokens_per_day: 6k}", "limits.tokens_per_day is 6000, more than 5000")
	f(right, "", "filters: [{type: eq, key: a, value: b}]", "filters are others")
	f(right, "models: [m]", "models: [m, n]", "models are others")
	f(right, "", "routes: [/chat/completions]", "routes are others")
	f(right, "expose: none", "expose: ids", "expose is ids, not none")
	f(right, "max_output_tokens: 100", "max_output_tokens: 200", "max_output_tokens is 200, more than 100")
	f(right, "overrides: [{models: [m], mode: off}]", "overrides: [{models: [n], mode: off}]", "overrides are for other models or routes")
	f(right, "overrides: [{models: [m], context_tokens: 10}]", "overrides: [{models: [m], context_tokens: 20}]", "overrides[0]: context_tokens is 20, more than 10")
	f(right, "", "max_output_tokens: 200\n  c:\n    extends: a\n    experiment: {name: x, policy: b, share: 1%}", `"x" is also the name of an experiment at c.yaml:8:18`)

	without := strings.Replace(twoPolicies(right, "limits: {tokens_per_day: 5k}", ""), "extends: a", "{upstream: one, knowledge: [docs]}", 1)
	if _, err := loadText(strings.Replace(without, "    {upstream: one, knowledge: [docs]}\n", "    upstream: one\n", 1)); err == nil || !strings.Contains(err.Error(), "limits.tokens_per_day is not limited, and there 5000") {
		t.Errorf("a policy without limits: %v", err)
	}
}

// A policy that lists no base has none for a tenant without its own, and all without tenants.
func TestExperimentsGiveNoBaseToTenantsWithoutOne(t *testing.T) {
	text := strings.Replace(twoPolicies("name: x, policy: b, share: 50%", "mode: off", "mode: inject\n    knowledge: [hr]"), "    knowledge: [docs]\n", "", 1)
	const want = `c.yaml:7:27: policies.a.experiment.policy: "b" is stronger than "a": knowledge has the base "hr"`
	if _, err := loadText(text); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	own := strings.Replace(text, "policy: a, keys", "policy: a, knowledge: [docs], keys", 1)
	if c, err := loadText(own); err != nil {
		t.Error(err)
	} else if of, _ := c.Tenant("t"); !slices.Equal(of.Experiment.B.Rewrite.Knowledge, []string{"docs"}) {
		t.Errorf("a tenant with its own bases gets %v", of.Experiment.B.Rewrite.Knowledge)
	}
	var none []string
	for line := range strings.Lines(strings.Replace(text, "  a:", "  default:", 1)) {
		if !strings.HasPrefix(line, "tenants:") {
			none = append(none, strings.Replace(line, "extends: a", "extends: default", 1))
		}
	}
	if c, err := loadText(strings.Join(none, "")); err != nil {
		t.Error(err)
	} else if of, _ := c.Tenant("default"); !slices.Equal(of.Experiment.B.Rewrite.Knowledge, []string{"hr"}) {
		t.Errorf("without tenants policy b has %v", of.Experiment.B.Rewrite.Knowledge)
	}
}

// Policy B is resolved for the tenant, with the tenant's access and spending, and policy A hashes as
// without the experiment. Policies that extend A have no experiment.
func TestExperimentResolvesPolicyBForTheTenant(t *testing.T) {
	text := twoPolicies("name: x, policy: b, share: 20%, until: 2099-12-31, goal: support, requests: 500", "limits: {tokens_per_day: 5k}\n    overrides: [{models: [m], retrieval: {top_k: 2}}]", "mode: shadow")
	text = strings.Replace(text, "policy: a, keys", "policy: a, knowledge: [hr], filters: [{type: eq, key: who, value: t}], keys", 1)
	c, err := loadText(text)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := loadText(strings.Replace(text, "    experiment: {name: x, policy: b, share: 20%, until: 2099-12-31, goal: support, requests: 500}\n", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := c.Tenant("t")
	before, _ := plain.Tenant("t")
	if a.Hash != before.Hash || before.Experiment != nil {
		t.Errorf("policy a hashes as %s with and %s without the experiment, %v", a.Hash, before.Hash, before.Experiment)
	}
	e := a.Experiment
	if e == nil || e.Name != "x" || e.Share != .2 || e.Goal != experiment.Support || e.Requests != 500 || e.Over(time.Date(2099, 12, 31, 23, 0, 0, 0, time.UTC)) || !e.Over(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Fatalf("experiment: %+v", e)
	}
	b := e.B
	if b.Name != "b" || b.Tenant != "t" || b.Rewrite.Mode.String() != "shadow" || !slices.Equal(b.Rewrite.Knowledge, []string{"hr"}) || b.Budget.Limits != a.Budget.Limits {
		t.Errorf("policy b: %+v", b)
	}
	if b.Rewrite.Filter == nil || b.Rewrite.Filter.String() != a.Rewrite.Filter.String() {
		t.Errorf("the filter of policy b is %v, want %v", b.Rewrite.Filter, a.Rewrite.Filter)
	}
	over := a.Overrides[0].Policy.Experiment
	if over == nil || over.B.Rewrite.Search.TopK != 2 || over.B.Rewrite.Mode.String() != "shadow" {
		t.Errorf("override of policy b: %+v", over)
	}
	if all := c.Experiments(); len(all) != 1 || all[0] != e.Settings {
		t.Errorf("experiments: %+v, want %+v", all, e.Settings)
	}
	if own := strings.Replace(text, "policy: a, keys", "policy: b, keys", 1); own != text {
		t.Fatal("the tenant has another form")
	}
	other, err := loadText(strings.Replace(text, "tenants: {t: {policy: a,", "tenants: {t: {policy: b,", 1))
	if err != nil {
		t.Fatal(err)
	}
	if of, _ := other.Tenant("t"); of.Experiment != nil || of.Hash != b.Hash {
		t.Errorf("tenant of policy b: experiment %v, hash %s, want %s", of.Experiment, of.Hash, b.Hash)
	}
}

// A day that has passed is no error; the summary says that all get policy A.
func TestExperimentOfThePastIsNoted(t *testing.T) {
	c, err := loadText(twoPolicies("name: x, policy: b, share: 20%, until: 2026-01-31", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Expired(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)); len(got) != 0 {
		t.Errorf("on the last day: %v", got)
	}
	const want = "c.yaml:8:50: policies.a.experiment.until: 2026-01-31 has passed; all requests get policy a"
	if got := c.Expired(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)); got.Error() != want {
		t.Errorf("the day after: %v, want %s", got, want)
	}
}
