package config_test

import (
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
)

// Grading is off until its scores are chosen; its settings are inherited and overridden like
// others, and its timeout is part of WorstRetrieval.
func TestGrade(t *testing.T) {
	const more = "upstreams: {judge: http://127.0.0.1:1}\n"
	model := retrieval.GradeSettings{By: "llm", Upstream: "judge", Address: "http://127.0.0.1:1", Model: "m", Relevant: .7, Irrelevant: .3, Timeout: 2 * time.Second}
	other := model
	other.Relevant, other.Irrelevant, other.Timeout = .9, .9, time.Second
	scores := retrieval.GradeSettings{By: "rerank", Relevant: .5, Irrelevant: .05}
	const search = 300 * time.Millisecond
	for file, want := range map[string]struct {
		grade retrieval.GradeSettings
		wait  time.Duration
	}{
		"policies: {default: {mode: inject}}":                                {retrieval.GradeSettings{}, search},
		"policies: {default: {grade: off}}":                                  {retrieval.GradeSettings{}, search},
		"policies: {default: {grade: {by: llm, upstream: judge, model: m}}}": {model, search + 2*time.Second},
		"policies: {default: {grade: {by: llm, upstream: judge, model: m, relevant: 0.9, irrelevant: 0.9, timeout: 1s}}}":      {other, search + time.Second},
		"policies: {base: {grade: {by: llm, upstream: judge, model: m}}, default: {extends: base, grade: off}}":                {retrieval.GradeSettings{}, search},
		"policies: {default: {rerank: {upstream: judge, dialect: tei}, grade: {by: rerank, relevant: 0.5, irrelevant: 0.05}}}": {scores, search + 2*time.Second},
		"policies: {default: {rerank: {upstream: judge, dialect: llm, model: m}, grade: rerank}}": {
			retrieval.GradeSettings{By: "rerank", Relevant: .7, Irrelevant: .3}, search + 2*time.Second,
		},
		"policies: {default: {planner: {model: m, timeout: 3s}, grade: {by: llm, upstream: judge, model: m, ambiguous: replan}}}": {model, 3*time.Second + 2*(search+2*time.Second)},
		"policies: {default: {planner: {model: m, timeout: 3s}, grade: {ambiguous: replan, by: off}}}":                            {retrieval.GradeSettings{}, 3*time.Second + search},
	} {
		c, err := config.Load(disk{"c.yaml": up + more + file}.source("c.yaml"))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		p, _ := c.Tenant("default")
		if got := p.Rewrite.Grade; got != want.grade {
			t.Errorf("%s: %+v, want %+v", file, got, want.grade)
		}
		if c.WorstRetrieval() != want.wait {
			t.Errorf("%s: waits for %v, want %v", file, c.WorstRetrieval(), want.wait)
		}
		twice := strings.Contains(file, "replan") && want.grade.By != ""
		if p.Rewrite.Planner.Replan != twice || config.Replanning(c) != twice {
			t.Errorf("%s: replans %v", file, p.Rewrite.Planner.Replan)
		}
		if asked := want.grade.By == "llm"; config.GradeUpstreams(c)["judge"] != asked || asked && !c.OnlyForKnowledge("judge") {
			t.Errorf("%s: asks %v", file, config.GradeUpstreams(c))
		}
	}
}

// Grading settings without grading change neither the resolved policy nor its hash.
func TestGradeOffIsAsBefore(t *testing.T) {
	hash := func(policy string) string {
		t.Helper()
		c, err := config.Load(disk{"c.yaml": up + "policies: {default: {upstream: default, planner: {model: m}, " + policy + "}}"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("default")
		return p.Hash
	}
	plain := hash("mode: inject")
	if off := hash("grade: {by: off, timeout: 1s, relevant: 0.9, ambiguous: replan}"); off != plain {
		t.Errorf("hashes %s and %s", plain, off)
	}
	on := hash("grade: {by: llm, upstream: default, model: m}")
	if again := hash("grade: {by: llm, upstream: default, model: m, ambiguous: replan}"); on == plain || again == on {
		t.Errorf("hashes %s, %s and %s", plain, on, again)
	}
}

// Invalid grading settings are refused at their position.
func TestGradeRefused(t *testing.T) {
	const rerank = "rerank: {upstream: default, model: m}, "
	for policy, want := range map[string]string{
		"grade: {timeout: 1s}":                          "c.yaml:2:22: policies.default.grade.by: is missing; say rerank",
		"grade: {by: cohere}":                           `c.yaml:2:34: policies.default.grade.by: "cohere" is none of off, rerank, llm`,
		"grade: rerank":                                 "c.yaml:2:29: policies.default.grade.by: the policy does not rerank",
		rerank + "grade: {by: rerank, irrelevant: 0.1}": `policies.default.grade.relevant: is missing; what reranks scores on a scale of its own`,
		rerank + "grade: {by: rerank, relevant: 0.1}":   `policies.default.grade.irrelevant: is missing; what reranks scores on a scale of its own`,
		rerank + "grade: {by: rerank, relevant: 0.5, irrelevant: 0.1, timeout: 1s}": "policies.default.grade.timeout: is of by: llm only",
		rerank + "grade: {by: rerank, relevant: 0.5, irrelevant: 0.1, upstream: x}": "policies.default.grade.upstream: is of by: llm only",
		"grade: llm": "policies.default.grade.upstream: is missing; name the upstream whose model grades",
		"grade: {by: llm, upstream: defualt, model: m}":                                 `policies.default.grade.upstream: no upstream is named "defualt"`,
		"grade: {by: llm, upstream: default}":                                           `policies.default.grade.model: is missing; name the model of upstream "default" that grades`,
		"grade: {by: llm, upstream: default, model: m, relevant: 0.2}":                  "policies.default.grade.irrelevant: 0.3 is more than relevant, 0.2",
		"grade: {by: llm, upstream: default, model: m, ambiguous: replan}":              "policies.default.grade.ambiguous: replan takes a planner; name its model",
		"grade: {by: llm, upstream: default, model: m, ambiguous: again}":               "policies.default.grade.ambiguous",
		"grade: {by: llm, upstream: default, model: m, timeout: 6s}":                    "policies.default.grade.timeout: 6s is out of range",
		"grade: {by: llm, upstream: default, model: m, relevant: 0}":                    "policies.default.grade.relevant",
		"overrides: [{models: [a], grade: {by: llm, upstream: default}}]":               "policies.default.overrides[0].grade.model: is missing",
		"overrides: [{models: [a], grade: {by: rerank, relevant: 1, irrelevant: 0.5}}]": "policies.default.overrides[0].grade.by: the policy does not rerank",
	} {
		_, err := config.Load(disk{"c.yaml": up + "policies: {default: {" + policy + "}}"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", policy, err, want)
		}
	}
}
