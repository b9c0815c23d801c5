package config_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A scalar may come from the environment, with the same checks, and may have a default.
func TestValueFromEnvironment(t *testing.T) {
	src := disk{"c.yaml": `
upstream: {base_url: {env: URL}}
listen: {env: LISTEN, default: 127.0.0.1:7001}
concurrency: {default: 9, env: LIMIT}
knowledge: {docs: {path: {env: DOCS, default: docs}, engine: {env: ENGINE, default: embedded}}}
identity: {open: {env: OPEN, default: false}, hosts: [{env: HOST}, b.test]}
policies: {default: {context_tokens: {env: TOKENS}}, more: {extends: default, retrieval: {deadline: {env: WAIT}}, overrides: [{models: [a], context_tokens: {env: LIMIT}}]}}
`}.source("c.yaml")
	src.Env = env(map[string]string{"URL": " https://u.test ", "LIMIT": "2k", "HOST": "a.test", "TOKENS": "3k", "WAIT": "1s", "LISTEN": " "})
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policies["more"]
	got := fmt.Sprintln(c.Upstream.BaseURL, c.Listen, c.Concurrency, c.Knowledge["docs"].Path, c.Identity.Hosts, p.ContextTokens, p.Retrieval.Deadline, p.Overrides[0].ContextTokens)
	if want := "https://u.test 127.0.0.1:7001 2000 docs [a.test b.test] 3000 1s 2000\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The values of filters and attributes may too. They are always strings, never claims; an
// attribute may still be named env.
func TestTextFromEnvironment(t *testing.T) {
	src := disk{"c.yaml": `
upstream: https://u.test
knowledge: {docs: {path: ., attributes: {env: prod, stage: {env: STAGE}, tags: [a, b]}}}
policies: {default: {filters: [{type: eq, key: env, value: {env: STAGE}}, {type: in, key: tags, value: [{env: TAG, default: a}, b]}]}}
`}.source("c.yaml")
	src.Env = env(map[string]string{"STAGE": "7", "TAG": "${claims.sub}"})
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.Knowledge["docs"].Attributes), "map[env:prod stage:7 tags:[a b]]"; got != want {
		t.Errorf("attributes are %s, want %s", got, want)
	}
	p, _ := c.Tenant("default")
	if got, want := p.Rewrite.Filter.String(), `{"type":"and","filters":[{"type":"eq","key":"env","value":"7"},{"type":"in","key":"tags","value":["${claims.sub}","b"]}]}`; got != want {
		t.Errorf("filter is  %s\nwant       %s", got, want)
	}
	for range p.Rewrite.Filter.Claims {
		t.Error("a text of the environment became a claim")
	}
}

// An invalid value from the environment is refused by key and variable. It is not shown, as it may
// be a secret named by mistake. (T28)
func TestValueFromEnvironmentRefused(t *testing.T) {
	const forFile = "is not for an included file to read; c.yaml:1:38 can allow it, as in {path: team.yaml, may: [secrets]}"
	for _, c := range []struct{ main, team, want string }{
		{"concurrency: {env: UNSET}", "", "c.yaml:2:14: concurrency: UNSET is not set in the environment, and there is no default"},
		{"concurrency: {env: BLANK}", "", "c.yaml:2:14: concurrency: BLANK is not set in the environment, and there is no default"},
		{"concurrency: {env: KEY}", "", "c.yaml:2:14: concurrency: the value of env KEY is not a whole number; write it as in 2000 or 200k"},
		{"concurrency: {env: MANY}", "", "c.yaml:2:14: concurrency: the value of env MANY is out of range; use 1 to 1M"},
		{"concurrency: {env: UNSET, default: 0}", "", `c.yaml:2:14: concurrency: "0", the default of env UNSET, is out of range; use 1 to 1M`},
		{"listen: {env: KEY}", "", "c.yaml:2:9: listen: the value of env KEY is not an address; write host:port, as in 127.0.0.1:8080"},
		{"telemetry: {log: {format: {env: KEY}}}", "", "c.yaml:2:27: telemetry.log.format: the value of env KEY is none of auto, text, json"},
		{"concurrency: {default: 5}", "", "c.yaml:2:14: concurrency.env: is missing"},
		{"concurrency: {env: KEY, defalt: 5}", "", "c.yaml:2:25: concurrency.defalt: unknown key; here stands one value, or {env: NAME, default: VALUE}"},
		{"concurrency: {env: KEY, default: ''}", "", "c.yaml:2:34: concurrency.default: is blank; give it a value or leave the key out"},
		{"concurrency: {env: KEY, default: [5]}", "", "c.yaml:2:34: concurrency.default: expected one value, got a list"},
		{"concurrency: {env: KEY, env: KEY}", "", "c.yaml:2:25: concurrency.env: is here twice; the first is at c.yaml:2:15"},
		{"admin: {token: {env: KEY, default: x}}", "", "c.yaml:2:27: admin.token.default: unknown key"},
		{"", "policies: {mine: {context_tokens: {env: SIZE, default: 5}}}", "team.yaml:1:36: policies.mine.context_tokens.env: " + forFile},
		{"policies: {default: {filters: [{type: eq, key: a, value: {env: UNSET}}]}}", "", "c.yaml:2:58: policies.default.filters[0].value: UNSET is not set in the environment, and there is no default"},
		{"policies: {default: {filters: [{type: {env: KEY}, key: a, value: b}]}}", "", `c.yaml:2:39: policies.default.filters[0].type: {"env":"KEY"} is not a string`},
		{"policies: {default: {filters: [{type: and, filters: [{type: gt, key: a, value: [{env: KEY}]}]}]}}", "", "c.yaml:2:80: policies.default.filters[0].filters[0].value: the value of env KEY is refused"},
		{"knowledge: {docs: {path: ., attributes: {a: [{env: KEY}]}}}", "", `c.yaml:2:29: knowledge.docs.attributes: attribute "a": [{"env":"KEY"}] is a list with an object in it; lists are of strings`},
		{"knowledge: {docs: {path: ., attributes: {a: {env: UNSET}}}}", "", "c.yaml:2:45: knowledge.docs.attributes.a: UNSET is not set in the environment, and there is no default"},
		{"", "policies: {mine: {filters: [{type: eq, key: a, value: {env: SIZE}}]}}", "team.yaml:1:56: policies.mine.filters[0].value.env: " + forFile},
		{"", "knowledge: {docs: {path: ./docs, deletions: {env: SIZE}}}", "team.yaml:1:46: knowledge.docs.deletions.env: " + forFile},
	} {
		main := "upstream: https://u.test\n" + c.main
		if c.team != "" {
			main = "{upstream: https://u.test, include: [team.yaml], policies: {default: {mode: off}}}\n"
		}
		src := disk{"c.yaml": main, "team.yaml": c.team}.source("c.yaml")
		src.Env = env(map[string]string{"KEY": "sk-canary", "BLANK": " ", "MANY": "999999999", "SIZE": "7"})
		_, err := config.Load(src)
		got := fmt.Sprint(err)
		if got != c.want {
			t.Errorf("%s%s:\ngot  %s\nwant %s", c.main, c.team, got, c.want)
		}
		if strings.Contains(got, "canary") || strings.Contains(got, "999999999") {
			t.Errorf("the environment shows in %s", got)
		}
	}
}

// An include that allows secrets allows variables.
func TestDelegatedVariables(t *testing.T) {
	src := disk{
		"c.yaml":    "upstream: https://u.test\ninclude: [{path: team.yaml, may: [secrets]}]\npolicies: {default: {mode: inject}}\n",
		"team.yaml": "policies: {mine: {context_tokens: {env: SIZE, default: 5}}}\n",
	}.source("c.yaml")
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Policies["mine"].ContextTokens; got != 5 {
		t.Errorf("got %d", got)
	}
}
