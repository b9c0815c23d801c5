package config_test

import (
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// Rules for background calls are added to the built-in ones, inherited, and switched off together.
func TestSkip(t *testing.T) {
	const own = "[{name: ours, user_matches: '^Name', header: 'X-Task: title', max_tokens_below: 100}]"
	for skip, want := range map[string]struct {
		rules int
		apps  bool
	}{
		"citations: on":              {0, true},
		"skip: on":                   {0, true},
		"skip: off":                  {0, false},
		"skip: " + own:               {1, true},
		"skip: {rules: " + own + "}": {1, true},
		"skip: {known_apps: off, rules: " + own + "}": {1, false},
		"extends: named":                          {1, true},
		"extends: named, skip: off":               {0, false},
		"extends: named, skip: {known_apps: off}": {1, false},
	} {
		c := load(t, "upstream: http://127.0.0.1:1\npolicies:\n  named: {skip: "+own+"}\n  default: {"+skip+"}\n")
		p, _ := c.Tenant("default")
		if got := p.Rewrite.Skip; len(got.Rules) != want.rules || got.NoApps == want.apps {
			t.Errorf("%q: %+v", skip, got)
		}
		for _, r := range p.Rewrite.Skip.Rules {
			if r.Name != "ours" || r.User == nil || r.System != nil || r.MaxTokensBelow != 100 || r.Header != "X-Task" || r.Value != "title" {
				t.Errorf("%q: %+v", skip, r)
			}
		}
	}
}

// What is wrong with a rule is said with its place, field and value.
func TestSkipRefuses(t *testing.T) {
	for rule, want := range map[string]string{
		"{name: a, user_matches: '(x'}":       `c.yaml:2:54: policies.default.skip.rules[0].user_matches: "(x" is not a regular expression: missing closing ): ` + "`(x`",
		"{name: a, system_matches: 'a(?=b)'}": `system_matches: "a(?=b)" is not a regular expression: invalid or unsupported Perl syntax: ` + "`(?=`",
		"{name: a, max_tokens_below: 1}":      `max_tokens_below: 1 is out of range; use 2 to 1M`,
		"{name: a, header: 'X Task'}":         `header: "X Task" is not a header`,
		"{name: a, header: 'X-Task:'}":        `header: "X-Task:" is not a header`,
		"{name: a}":                           `c.yaml:2:30: policies.default.skip.rules[0]: matches every request`,
		"{user_matches: x}":                   `policies.default.skip.rules[0].name: is missing`,
		"{name: open-webui, user_matches: x}": `policies.default.skip.rules[0].name: "open-webui" is taken`,
		"{name: a, user_match: x}":            `policies.default.skip.rules[0].user_match: unknown key; did you mean user_matches?`,
	} {
		_, err := config.Load(disk{"c.yaml": "upstream: http://127.0.0.1:1\npolicies: {default: {skip: [ " + rule + "]}}\n"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", rule, err, want)
		}
	}
}
