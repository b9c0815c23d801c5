package report_test

import (
	"testing"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// Each stage is counted by name and outcome, and its time and tokens if an upstream was called;
// chats that were not answered in stages despite their policy are counted by reason. Others create
// no series.
func TestStages(t *testing.T) {
	m := reporttest.NewMetrics()
	before := series(t, m)
	m.Record(&report.Report{Tenant: "acme", Route: route.Chat, Outcome: rewrite.Injected})
	if got := series(t, m) - before; got != 2 {
		t.Errorf("%d series more without stages", got)
	}
	chat := func(outcome rewrite.Outcome, called ...report.Stage) *report.Report {
		r := reporttest.Injected()
		r.Tenant, r.Route, r.Outcome, r.Stages = "acme", route.Chat, outcome, &report.Stages{Total: 2, Called: called}
		return r
	}
	draft := report.Stage{Name: "draft", Calls: 1, Took: time.Second, Outcome: report.StageOK, Usage: answer.Usage{Input: 900, Output: 100}}
	remembered := report.Stage{Name: "draft", Outcome: report.StageOK, Usage: answer.Usage{Input: 900, Output: 100}}
	late := report.Stage{Name: "final", Calls: 2, Took: time.Minute, Outcome: report.StageTimeout}
	m.Record(chat(report.Staged, draft, report.Stage{Name: "final", Calls: 1, Took: time.Second, Outcome: report.StageOK, Usage: answer.Usage{Input: 1200, Output: 300}}))
	m.Record(chat(report.Staged, draft, late))
	m.Record(chat(report.Failed, remembered, late))
	m.Record(chat(report.Staged, report.Stage{Name: "strange", Outcome: report.StageBudget}))
	m.Record(&report.Report{Tenant: "acme", Route: route.Chat, Outcome: rewrite.Injected, StagesSkipped: "choices"})
	for _, c := range []struct {
		name, label string
		want        float64
	}{
		{"sidenote_requests_total", "staged", 3},
		{"sidenote_context_tokens", "", 5},
		{"sidenote_answer_stages_total", "draft", 3},
		{"sidenote_answer_stages_total", "final", 3},
		{"sidenote_answer_stages_total", "other", 1},
		{"sidenote_answer_stages_total", "ok", 4},
		{"sidenote_answer_stages_total", "timeout", 2},
		{"sidenote_answer_stages_total", "budget", 1},
		{"sidenote_answer_stage_duration_seconds", "draft", 2},
		{"sidenote_answer_stage_duration_seconds", "final", 3},
		{"sidenote_answer_stage_duration_seconds", "other", 0},
		{"sidenote_answer_stage_tokens_total", "draft", 2000},
		{"sidenote_answer_stage_tokens_total", "final", 1500},
		{"sidenote_answer_stage_tokens_total", "input", 3000},
		{"sidenote_answer_stage_tokens_total", "output", 500},
		{"sidenote_degraded_total", "stages", 1},
		{"sidenote_degraded_total", "timeout", 1},
		{"sidenote_unstaged_total", "choices", 1},
		{"sidenote_metrics_overflow_total", "", 1},
	} {
		if got := reporttest.Count(t, m, c.name, c.label); got != c.want {
			t.Errorf("%s of %q: %v, want %v", c.name, c.label, got, c.want)
		}
	}
}

// A stage of a reloaded configuration is counted by its name; earlier stages still are, as chats
// that began before may end later.
func TestStagesOfAReload(t *testing.T) {
	m := reporttest.NewMetrics()
	record := func(name string) {
		m.Record(&report.Report{Tenant: "acme", Route: route.Chat, Outcome: report.Staged, Stages: &report.Stages{Called: []report.Stage{{Name: name, Outcome: report.StageOK, Calls: 1}}}})
	}
	record("summary")
	m.Add(report.MetricNames{Stages: []string{"summary"}})
	record("summary")
	record("draft")
	for label, want := range map[string]float64{"other": 1, "summary": 1, "draft": 1} {
		if got := reporttest.Count(t, m, "sidenote_answer_stages_total", label); got != want {
			t.Errorf("%s: %v, want %v", label, got, want)
		}
	}
}
