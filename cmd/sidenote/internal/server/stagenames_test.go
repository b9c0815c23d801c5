package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
)

func loaded(t *testing.T, yaml string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte("upstream: http://127.0.0.1:9\n"+yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Stages of all tenants and their overrides are listed once each; stages that no chat uses are
// not.
func TestStageNames(t *testing.T) {
	const two = "[{name: draft, user_prompt_template: '{{QUESTION}}'}, {name: final, user_prompt_template: '{{draft}}'}]"
	cfg := loaded(t, "policies: {own: {mode: staged, stages: "+two+"}, default: {stages: medical, overrides: [{models: [b], mode: staged, stages: brief}, {models: [c], mode: staged, stages: "+two+"}]}}\n"+
		"tenants: {t: {policy: own, keys: [{sha256: "+strings.Repeat("5c", 32)+"}]}, u: {keys: [{sha256: "+strings.Repeat("6c", 32)+"}]}}\n")
	if got := strings.Join(stageNames(cfg), " "); got != "answer draft evidence final" {
		t.Error(got)
	}
}

// Metrics know the stages of the configuration by name, and those of a new one after its reload.
func TestStageNamesReachMetrics(t *testing.T) {
	load := func(stage string) *config.Config {
		return loaded(t, "policies: {default: {mode: staged, stages: [{name: "+stage+", user_prompt_template: '{{QUESTION}}'}]}}\n")
	}
	e, err := New(t.Context(), load("first"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	count := func(stage string) {
		e.Metrics.Record(&report.Report{Route: route.Chat, Tenant: "default", Outcome: report.Staged, Stages: &report.Stages{Called: []report.Stage{{Name: stage, Outcome: report.StageOK}}}})
	}
	count("first")
	count("second") // not known yet
	if _, err := e.DataServer(e.Metrics, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	e.AdminServer(slog.New(slog.DiscardHandler))
	if err := e.Reload(t.Context(), load("second")); err != nil {
		t.Fatal(err)
	}
	count("first")
	count("second")
	for stage, want := range map[string]float64{"first": 2, "second": 1, "other": 1} {
		if got := reporttest.Count(t, e.Metrics, "sidenote_answer_stages_total", stage); got != want {
			t.Errorf("%s: %v, want %v", stage, got, want)
		}
	}
}
