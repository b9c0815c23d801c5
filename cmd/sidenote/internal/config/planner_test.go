package config_test

import (
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
)

const up = "upstream: https://u.test\n"

// A planner is off until a model is named; its settings are inherited and overridden like others.
func TestPlanner(t *testing.T) {
	const more = "upstreams: {small: http://127.0.0.1:1}\n"
	on := retrieval.PlanSettings{MaxQueries: 3, Turns: 3, Timeout: 4 * time.Second}
	named := on
	named.Model, named.Upstream = "gpt-5-nano", "small"
	quick := named
	quick.Timeout, quick.MaxQueries, quick.Turns = time.Second, 2, 0
	for file, want := range map[string]retrieval.PlanSettings{
		"policies: {default: {mode: inject}}":                                  {},
		"policies: {default: {planner: off}}":                                  {},
		"policies: {default: {planner: auto}}":                                 on,
		"policies: {default: {planner: {model: auto}}}":                        on,
		"policies: {default: {planner: {model: gpt-5-nano, upstream: small}}}": named,
		"policies: {base: {planner: {model: gpt-5-nano, upstream: small}}, default: {extends: base, planner: {timeout: 1s, max_queries: 2, turns: 0}}}": quick,
		"policies: {base: {planner: auto}, default: {extends: base, planner: off}}":                                                                     {},
	} {
		c, err := config.Load(disk{"c.yaml": up + more + file}.source("c.yaml"))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		p, _ := c.Tenant("default")
		if got := p.Rewrite.Planner; got != want {
			t.Errorf("%s: %+v, want %+v", file, got, want)
		}
		wait := 300*time.Millisecond + want.Timeout
		if c.WorstRetrieval() != wait || config.Planning(c) != (want.MaxQueries > 0) {
			t.Errorf("%s: waits for %v, plans %v", file, c.WorstRetrieval(), config.Planning(c))
		}
	}
}

// Planner settings without a planner change neither the resolved policy nor its hash.
func TestPlannerOffIsAsBefore(t *testing.T) {
	hash := func(file string) string {
		t.Helper()
		c, err := config.Load(disk{"c.yaml": up + file}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("default")
		return p.Hash
	}
	const limited = "policies: {default: {limits: {tokens_per_day: 5M}"
	if a, b := hash(limited+"}}"), hash(limited+", ladder: [fewer_sources, shorter_sources, no_sources, refuse], planner: {model: off, turns: 1}}}"); a != b {
		t.Errorf("hashes %s and %s", a, b)
	}
	if a, b := hash("policies: {default: {mode: inject}}"), hash("policies: {default: {planner: auto}}"); a == b {
		t.Error("a planner changes no hash")
	}
}

// A planner without a model, or with an ambiguous upstream, is refused at its position.
func TestPlannerRefused(t *testing.T) {
	for file, want := range map[string]string{
		"policies: {default: {planner: {timeout: 1s}}}":                          "c.yaml:2:22: policies.default.planner.model: is missing; name the model that plans, or write auto",
		"policies: {default: {planner: {model: auto, upstream: default}}}":       "c.yaml:2:32: policies.default.planner.model: auto is the model of the request, which only its own upstream has",
		"policies: {default: {planner: {model: m, upstream: smal}}}":             `c.yaml:2:42: policies.default.planner.upstream: no upstream is named "smal"`,
		"policies: {default: {planner: {model: gpt-5*}}}":                        `c.yaml:2:39: policies.default.planner.model: "gpt-5*" is not the name of a model`,
		"policies: {default: {planner: {model: m, timeout: 11s}}}":               "c.yaml:2:51: policies.default.planner.timeout: 11s is out of range",
		"policies: {default: {planner: {model: m, max_queries: 100}}}":           "c.yaml:2:55: policies.default.planner.max_queries: 100 is out of range",
		"policies: {default: {planner: {model: m, turn: 1}}}":                    "policies.default.planner.turn: unknown key; did you mean turns?",
		"policies: {default: {overrides: [{models: [a], planner: {turns: 1}}]}}": "policies.default.overrides[0].planner.model: is missing",
	} {
		_, err := config.Load(disk{"c.yaml": up + file}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", file, err, want)
		}
	}
}
