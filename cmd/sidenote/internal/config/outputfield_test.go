package config_test

import (
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A row sets the output field of a deployment with a free name, which otherwise gets that of the
// built-in row its name matches.
func TestOutputField(t *testing.T) {
	for row, want := range map[string]bool{
		"{match: prod, output_field: max_completion_tokens}": true, "{match: prod, output_field: max_tokens}": false,
		"{match: prod, window: 1k}": false, "{match: gpt-5, window: 1k}": true, "{match: gpt-5, output_field: max_tokens}": false,
	} {
		c, err := config.Load(disk{"c.yaml": "upstream: https://u.test\nmodels: [" + row + "]"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if got := config.ModelTable(c.Models)[0].CompletionCap; got != want {
			t.Errorf("%s: %t", row, got)
		}
	}
	_, err := config.Load(disk{"c.yaml": "upstream: https://u.test\nmodels: [{match: a, output_field: max_output_tokens}]"}.source("c.yaml"))
	if want := `c.yaml:2:35: models[0].output_field: "max_output_tokens" is none of max_tokens, max_completion_tokens`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
