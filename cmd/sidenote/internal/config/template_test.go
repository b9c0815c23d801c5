package config_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A template that would not be filled in as it reads is refused at its position.
func TestTemplateIsPlainOrRefused(t *testing.T) {
	const head = "upstream: http://u.test\npolicies: {default: {template: '"
	refused := func(template, want string) {
		t.Helper()
		_, err := config.Load(disk{"c.yaml": head + template + "'}}"}.source("c.yaml"))
		want = "c.yaml:2:32: policies.default.template: " + want
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", template, got, want)
		}
	}
	const touched = ` has a brace beside a placeholder; put a space between them`
	refused("{{{CONTEXT}}}", `"{{{CONTEXT}}}"`+touched)
	refused("{{{{CONTEXT}}}}", `"{{{{CONTEXT}}}}"`+touched)
	refused("{{CONTEXT}}}", `"{{CONTEXT}}}"`+touched)
	refused("{{CONTEXT}} {{{QUERY}}", `"{{{QUERY}}"`+touched)
	refused("{{{{CONTEXT}}{{QUERY}}}}", `"{{{{CONTEXT}}"`+touched)
	const none = ` is not a placeholder; use {{CONTEXT}}, {{RULES}} or {{QUERY}}`
	refused("{{ CONTEXT }}", `"{{ CONTEXT }}"`+none)
	refused("{{context}}", `"{{context}}"`+none)
	refused("{{CONTEXT}} {{Query}}", `"{{Query}}"`+none)
	refused("{{ {{CONTEXT}} }}", `"{{ {{CONTEXT}}"`+none)
	refused("{{}} {{CONTEXT}}", `"{{}}"`+none)
	refused("{{sidenote}} {{CONTEXT}}", `"{{sidenote}}"`+none)
	refused("{{CONTEXT}} {{", `"{{"`+none)
	refused("{{CONTEXT}} {{QUERY", `"{{QUERY"`+none)
	refused("{{RULES}}} {{CONTEXT}}", `"{{RULES}}}"`+touched)
	refused("{{rules}} {{CONTEXT}}", `"{{rules}}"`+none)
	refused("{{RULES}} {{CONTEXT}} {{RULES}}", "has {{RULES}} 2 times; the rules go in once")
	refused("{{RULES}}", "has {{CONTEXT}} 0 times; the context goes in once")
	const once = "has {{CONTEXT}} %d times; the context goes in once"
	refused("Here is what we know.", fmt.Sprintf(once, 0))
	refused("{CONTEXT}", fmt.Sprintf(once, 0))
	refused("{{QUERY}}", fmt.Sprintf(once, 0))
	refused("{{CONTEXT}}\n{{CONTEXT}}", fmt.Sprintf(once, 2))
}

func TestTemplateProblemNamesItsLine(t *testing.T) {
	file := "upstream: http://u.test\npolicies:\n  default:\n    template: |\n      Sources:\n      {{ CONTEXT }}\n"
	_, err := config.Load(disk{"c.yaml": file}.source("c.yaml"))
	want := `c.yaml:4:15: policies.default.template: line 2: "{{ CONTEXT }}" is not a placeholder; use {{CONTEXT}}, {{RULES}} or {{QUERY}}`
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Braces that cannot be mistaken for a placeholder are text, and a template is printed as it was
// written.
func TestTemplateMayHoldJSON(t *testing.T) {
	const template = `Answer as {"answer": {"text": "…"}}, to {{QUERY}} by {{CONTEXT}}, {{QUERY}}`
	c, err := config.Load(disk{"c.yaml": "upstream: http://u.test\npolicies: {default: {template: '" + template + "'}}"}.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Policy("default").Template); got != template {
		t.Errorf("got %s", got)
	}
	if p, _ := c.Tenant("default"); !strings.Contains(fmt.Sprint(p.Rewrite.Template), "{{CONTEXT}}") {
		t.Errorf("the rewrite gets %v", p.Rewrite.Template)
	}
}

// rules is on or off; off does not allow {{RULES}}.
func TestRulesAreOnOrOff(t *testing.T) {
	for text, want := range map[string]string{
		`rules: none`: `c.yaml:2:29: policies.default.rules: "none" is none of on, off; did you mean off?`,
		`rules: off, template: "{{RULES}} {{CONTEXT}}"`: `c.yaml:2:22: policies.default.rules: is off, and the template has {{RULES}}; remove one of them`,
	} {
		_, err := config.Load(disk{"c.yaml": "upstream: http://u.test\npolicies: {default: {" + text + "}}"}.source("c.yaml"))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	for text, off := range map[string]bool{`mode: inject`: false, `rules: on`: false, `rules: off`: true} {
		c, err := config.Load(disk{"c.yaml": "upstream: http://u.test\npolicies: {default: {" + text + "}}"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if p, _ := c.Tenant("default"); p.Rewrite.NoRules != off {
			t.Errorf("%s: NoRules is %t", text, p.Rewrite.NoRules)
		}
	}
}
