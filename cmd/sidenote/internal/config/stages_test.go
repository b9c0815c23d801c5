package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/tenant"
	"sidenote/rewrite/staged"
)

// two is a chain of two stages, in YAML.
const two = "[{name: draft, user_prompt_template: 'Q {{QUESTION}}', temperature: 0, max_tokens: 1k}, {name: final, user_prompt_template: '{{draft}}'}]"

// A preset, a list and a map are equivalent. Settings are inherited and overridden like others;
// only chats under mode: staged have stages.
func TestStages(t *testing.T) {
	for file, want := range map[string]string{
		"default: {mode: inject, stages: careful}":                                                                   "",
		"default: {mode: tools, stages: careful}":                                                                    "",
		"default: {mode: staged, stages: careful}":                                                                   "draft critique final 1m0s 3m0s",
		"default: {mode: staged, stages: {chain: careful, timeout: 9s}}":                                             "draft critique final 1m0s 9s",
		"default: {mode: staged, stages: " + two + "}":                                                               "draft final 1m0s 3m0s",
		"default: {mode: staged, stages: {chain: " + two + ", stage_timeout: 2s}}":                                   "draft final 2s 3m0s",
		"base: {stages: {chain: medical, timeout: 9s}}, default: {extends: base, mode: staged}":                      "evidence_evaluator answer_generator critical_reviewer final_assembler 1m0s 9s",
		"base: {mode: staged, stages: {chain: medical, timeout: 9s}}, default: {extends: base, stages: " + two + "}": "draft final 1m0s 9s",
	} {
		p := loadPolicy(t, file)
		if got := shownStages(p.Stages); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	p := loadPolicy(t, "default: {mode: staged, stages: {chain: "+two+", usage: last, heartbeat: off, unfit: refuse}, on_failure: {stage: refuse}}").Stages
	first := p.Stages[0]
	if !p.LastUsage || !p.NoHeartbeat || !p.RefuseUnfit || !p.RefuseOnFailure || first.Temperature == nil || *first.Temperature != 0 || first.MaxTokens != 1000 || p.Stages[1].Temperature != nil {
		t.Errorf("%+v", p)
	}
	remembered := loadPolicy(t, "default: {mode: staged, stages: {chain: brief, cache: 10m}, overrides: [{models: [m], stages: {cache: 0}}]}")
	if a, b := remembered.Stages.Cache, remembered.Overrides[0].Policy.Stages.Cache; a != 10*time.Minute || b != 0 || p.Cache != 0 {
		t.Errorf("remembered for %v, %v under an override, %v by default", a, b, p.Cache)
	}
	over := loadPolicy(t, "default: {stages: careful, overrides: [{models: [a], mode: staged}, {models: [b], mode: staged, stages: brief}]}")
	if a, b := shownStages(over.Overrides[0].Policy.Stages), shownStages(over.Overrides[1].Policy.Stages); a != "draft critique final 1m0s 3m0s" || b != "evidence answer 1m0s 3m0s" {
		t.Errorf("overrides: %s, %s", a, b)
	}
}

func loadPolicy(t *testing.T, policies string) tenant.Policy {
	t.Helper()
	c, err := config.Load(disk{"c.yaml": up + "policies: {" + policies + "}"}.source("c.yaml"))
	if err != nil {
		t.Fatalf("%s: %v", policies, err)
	}
	whole, _ := c.Tenant("default")
	return whole
}

func shownStages(p staged.Policy) string {
	if p.Chain == nil {
		return ""
	}
	var names []string
	for _, s := range p.Stages {
		names = append(names, s.Name)
	}
	return fmt.Sprintf("%s %s %s", strings.Join(names, " "), p.StageTimeout, p.Timeout)
}

// An output can be the answer if its stage says so, or if the next stage may stop the chain.
func TestDrafts(t *testing.T) {
	const chain = "[{name: a, user_prompt_template: '{{QUESTION}}'}, {name: b, user_prompt_template: '{{a}}'}, {name: c, user_prompt_template: '{{b}}'}]"
	for stages, want := range map[string]string{
		chain: "[false false false]",
		strings.Replace(chain, "name: a,", "name: a, draft: true,", 1):                                 "[true false false]",
		strings.Replace(chain, "name: a,", "name: a, draft: false,", 1):                                "[false false false]",
		strings.Replace(chain, "name: b,", "name: b, when: {stop_if: FINE},", 1):                       "[true false false]",
		strings.NewReplacer("name: b,", "name: b, when: {stop_if: FINE}, draft: true,").Replace(chain): "[true true false]",
		"medical": "[false true false false]", "careful": "[true false false]", "brief": "[false false]",
	} {
		p := loadPolicy(t, "default: {mode: staged, stages: "+stages+"}")
		var got []bool
		for _, s := range p.Stages.Chain.Stages {
			got = append(got, s.Draft)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", stages, got, want)
		}
	}
}

// The presets are as documented. A copy of one is the same chain.
func TestPresets(t *testing.T) {
	type stage struct {
		name        string
		temperature float64
		maxTokens   int
		stop, empty bool
	}
	for name, want := range map[string][]stage{
		"medical": {
			{"evidence_evaluator", .1, 600, false, true}, {"answer_generator", .3, 1024, false, false},
			{"critical_reviewer", 0, 600, true, false}, {"final_assembler", .2, 1200, false, false},
		},
		"careful": {{"draft", .3, 1024, false, false}, {"critique", 0, 600, true, false}, {"final", .2, 1200, false, false}},
		"brief":   {{"evidence", 0, 500, false, true}, {"answer", .2, 600, false, false}},
	} {
		p := loadPolicy(t, "default: {mode: staged, stages: "+name+"}")
		text, _ := staged.Preset(name)
		copied, err := config.Load(disk{"c.yaml": up + "include: [mine.yaml]\npolicies: {default: {extends: " + name + "}}", "mine.yaml": string(text)}.source("c.yaml"))
		if err != nil || len(p.Stages.Stages) != len(want) {
			t.Fatalf("%s: %v, %d stages", name, err, len(p.Stages.Stages))
		}
		if mine, _ := copied.Tenant("default"); mine.Hash != p.Hash {
			t.Errorf("a copy of %s is another policy", name)
		}
		for i, s := range p.Stages.Stages {
			if got := (stage{s.Name, *s.Temperature, s.MaxTokens, s.StopIf == "NO ISSUES", s.EmptyIf == "NO EVIDENCE"}); got != want[i] {
				t.Errorf("%s: %+v, want %+v", name, got, want[i])
			}
		}
		if !p.Stages.Chain.Uses(staged.PlaceContext) {
			t.Errorf("%s reads no sources", name)
		}
	}
}

// Stage settings do not change the hash of a policy without stages; with stages, each setting
// does.
func TestStagesOffAreAsBefore(t *testing.T) {
	plain := loadPolicy(t, "default: {mode: inject}")
	content, err := json.Marshal(plain)
	if err != nil || strings.Contains(string(content), "Stage") {
		t.Errorf("%s, %v", content, err)
	}
	for _, policy := range []string{"mode: inject, stages: careful", "mode: inject, stages: {chain: brief, timeout: 9s}", "mode: inject, on_failure: {stage: refuse}"} {
		if off := loadPolicy(t, "default: {"+policy+"}"); off.Hash != plain.Hash {
			t.Errorf("%s has another hash", policy)
		}
	}
	seen := map[string]string{plain.Hash: "inject"}
	for _, policy := range []string{
		"stages: brief", "stages: careful", "stages: " + two, "stages: {chain: " + two + ", timeout: 9s}", "stages: {chain: " + two + ", stage_timeout: 9s}",
		"stages: {chain: " + two + ", cache: 10m}", "stages: {chain: " + two + ", cache: 11m}", "stages: {chain: " + two + ", usage: last}", "stages: {chain: " + two + ", heartbeat: off}", "stages: {chain: " + two + ", unfit: refuse}",
		"stages: " + two + ", on_failure: {stage: refuse}", "stages: " + strings.Replace(two, "temperature: 0,", "", 1),
		"stages: " + strings.Replace(two, "name: draft,", "name: draft, draft: true,", 1), "stages: " + strings.Replace(two, "Q {{", "R {{", 1), "stages: " + strings.Replace(two, "name: final", "name: last", 1),
	} {
		hash := loadPolicy(t, "default: {mode: staged, "+policy+"}").Hash
		if other, twice := seen[hash]; twice {
			t.Errorf("%s and %s have one hash", other, policy)
		}
		seen[hash] = policy
	}
}

// The rung no_stages is first on the default ladder. A policy without stages lacks it, and its
// hash does not change.
func TestLadderOfStages(t *testing.T) {
	const all = "[no_stages fewer_sources shorter_sources no_planner no_sources]"
	for policy, want := range map[string]string{
		"mode: staged, stages: brief, planner: auto":                                           all,
		"mode: staged, stages: brief":                                                          strings.Replace(all, "no_planner ", "", 1),
		"mode: staged, stages: brief, grounding: strict":                                       "[no_stages fewer_sources shorter_sources]",
		"mode: staged, stages: brief, ladder: [refuse]":                                        "[]",
		"mode: staged, stages: brief, ladder: [fewer_sources, no_stages, refuse]":              "[fewer_sources no_stages]",
		"mode: inject, stages: brief, ladder: [no_stages, fewer_sources, refuse]":              "[fewer_sources]",
		"mode: tools, stages: brief, planner: auto":                                            strings.Replace(all, "no_stages ", "", 1),
		"stages: brief, ladder: [no_stages, refuse], overrides: [{models: [m], mode: staged}]": "[] [no_stages]",
	} {
		p := loadPolicy(t, "default: {limits: {tokens_per_day: 9k}, "+policy+"}")
		got := fmt.Sprint(p.Budget.Ladder)
		for _, o := range p.Overrides {
			got += fmt.Sprint(" ", o.Policy.Budget.Ladder)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
	}
	const limited = "limits: {tokens_per_day: 9k}"
	before := loadPolicy(t, "default: {"+limited+", ladder: [fewer_sources, shorter_sources, no_planner, no_sources, refuse]}").Hash
	if now := loadPolicy(t, "default: {"+limited+"}").Hash; now != before {
		t.Errorf("a policy without stages has hash %s, and had %s", now, before)
	}
}

// A chain that cannot run is refused at its position.
func TestStagesRefused(t *testing.T) {
	const first = "{name: a, user_prompt_template: '{{QUESTION}}'"
	many := strings.TrimSuffix(strings.Repeat(first+"}, ", 12), ", ")
	for policy, want := range map[string]string{
		"mode: staged":                                 "c.yaml:2:12: policies.default.stages: is missing; name a preset, brief, careful, medical, or list the stages",
		"stages: []":                                   "c.yaml:2:30: policies.default.stages: is blank",
		"stages: {chain: []}":                          "c.yaml:2:38: policies.default.stages.chain: is blank",
		"stages: medicl":                               `c.yaml:2:30: policies.default.stages.chain: no preset is named "medicl"; there are brief, careful, medical; did you mean medical?`,
		"stages: [" + many + "]":                       "c.yaml:2:30: policies.default.stages.chain: has 12 stages; there are at most 8",
		"stages: [" + first + "}, " + first + "}]":     `c.yaml:2:81: policies.default.stages.chain[1].name: "a" is taken by stage 1`,
		"stages: [{name: a, user_prompt_template: x}]": "c.yaml:2:41: policies.default.stages.chain[0].user_prompt_template: the first stage must use {{QUESTION}}",
		"stages: [{name: a}]":                          "policies.default.stages.chain[0].user_prompt_template: is missing",
		"stages: [{name: a, user_prompt_template: '{{QUESTION}} {{b}}'}]": `policies.default.stages.chain[0].user_prompt_template: "{{b}}" is not a placeholder`,
		"stages: [" + first + ", temperature: 2.5}]":                      "c.yaml:2:92: policies.default.stages.chain[0].temperature: 2.5 is not a temperature; use 0 to 2",
		"stages: [" + first + ", temperature: -1}]":                       "policies.default.stages.chain[0].temperature: -1 is not a temperature",
		"stages: [" + first + ", max_tokens: 0}]":                         "c.yaml:2:91: policies.default.stages.chain[0].max_tokens: 0 is out of range; use 1 to 10M",
		"stages: [" + first + ", budget: 15}]":                            "policies.default.stages.chain[0].budget: 15 is out of range",
		"stages: [" + first + ", draft: false}, {name: b, user_prompt_template: '{{a}}', when: {stop_if: X}}, {name: c, user_prompt_template: '{{b}}'}]": "c.yaml:2:79: policies.default.stages.chain[0].draft: is false, and the output is the answer where stop_if of stage \"b\"",
		"stages: [" + first + ", when: {stop_if: X}}]":        "policies.default.stages.chain[0].when.stop_if: has no stage before it",
		"stages: [" + first + ", upstream: other, model: m}]": `c.yaml:2:79: policies.default.stages.chain[0].upstream: no upstream is named "other"`,
		"stages: [" + first + ", upstream: default}]":         `policies.default.stages.chain[0].model: is missing; name the model of upstream "default"`,
		"stages: {chian: medical}":                            "policies.default.stages.chian: unknown key; did you mean chain?",
		"stages: {cache: 25h}":                                "policies.default.stages.cache: 25h is out of range; use 0s to 24h",
		"stages: {timeout: 0s}":                               "policies.default.stages.timeout: 0s is out of range",
		"stages: {usage: all}":                                `policies.default.stages.usage: "all" is none of sum, last`,
		"on_failure: {stage: pass}":                           `policies.default.on_failure.stage: "pass" is none of degrade, refuse`,
		"overrides: [{models: [m], mode: staged}]":            "policies.default.overrides[0].stages: is missing",
		"overrides: [{models: [m], stages: [{name: a, user_prompt_template: '{{QUESTION}} {{c}}'}]}]": "policies.default.overrides[0].stages.chain[0].user_prompt_template: \"{{c}}\"",
	} {
		_, err := config.Load(disk{"c.yaml": up + "policies: {default: {" + policy + "}}"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", policy, err, want)
		}
	}
	_, err := config.Load(disk{"c.yaml": up + "policies: {base: {stages: [{name: a, user_prompt_template: x}]}, default: {extends: base, mode: staged}}"}.source("c.yaml"))
	if err == nil || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("a chain that is inherited is refused as\n%v", err)
	}
	for _, once := range []string{"mode: staged, stages: []", "mode: staged, stages: {chain: []}", "stages: [{name: a}]"} {
		_, err := config.Load(disk{"c.yaml": up + "policies: {default: {" + once + "}}"}.source("c.yaml"))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s is refused twice:\n%v", once, err)
		}
	}
	if time.Minute != config.DefaultPolicy().Stages.StageTimeout {
		t.Error("the default of stage_timeout is another than the page says")
	}
}
