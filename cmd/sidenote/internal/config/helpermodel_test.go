package config_test

import (
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/rewrite/tokens"
)

// A row says whether a model accepts a temperature and whether it reasons. Missing settings are
// those of the built-in row.
func TestModelTemperatureAndReasoning(t *testing.T) {
	type facts struct {
		fixed     bool
		reasoning tokens.Reasoning
	}
	for row, want := range map[string]facts{
		"{match: prod, temperature: fixed}": {true, ""}, "{match: prod, reasoning: effort}": {false, tokens.ReasoningEffort},
		"{match: claude-opus-4-7, temperature: any}": {false, ""}, "{match: claude-opus-4-7, window: 1k}": {true, ""},
		"{match: gpt-5, reasoning: none}": {false, tokens.ReasoningNone}, "{match: gpt-5, window: 1k}": {false, tokens.ReasoningEffort},
	} {
		c, err := config.Load(disk{"c.yaml": "upstream: https://u.test\nmodels: [" + row + "]"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if m := config.ModelTable(c.Models)[0]; (facts{m.FixedTemperature, m.Reasoning}) != want {
			t.Errorf("%s: %t, %q", row, m.FixedTemperature, m.Reasoning)
		}
	}
	for row, want := range map[string]string{
		"{match: a, temperature: 0}":  `c.yaml:2:34: models[0].temperature: "0" is none of any, fixed`,
		"{match: a, reasoning: high}": `c.yaml:2:32: models[0].reasoning: "high" is none of none, fixed, effort`,
	} {
		_, err := config.Load(disk{"c.yaml": "upstream: https://u.test\nmodels: [" + row + "]"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
