package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
)

// Tool settings are inherited and overridden like others; a list alone is the tools to offer; only
// chats under mode: tools have tools.
func TestTools(t *testing.T) {
	const bases = "knowledge: {docs: {path: ./docs, description: Rules for staff}, faq: ./faq}\n"
	both := []tools.Base{{ID: "docs", Description: "Rules for staff"}, {ID: "faq"}}
	defaults := tools.Policy{
		Offer: []tools.ToolName{"search_knowledge", "read_knowledge"}, Bases: both, FirstSearch: true, MaxRounds: 4, MaxTokens: 8000, Timeout: time.Minute,
	}
	of := func(change func(p *tools.Policy)) tools.Policy {
		p := defaults
		change(&p)
		return p
	}
	recall := of(func(p *tools.Policy) { p.Offer = []tools.ToolName{"recall"} })
	for file, want := range map[string]tools.Policy{
		"policies: {default: {mode: tools}}":                                         defaults,
		"policies: {default: {mode: inject, tools: [recall]}}":                       {},
		"policies: {default: {mode: tools, tools: [recall]}}":                        recall,
		"policies: {default: {mode: tools, tools: {offer: [recall]}}}":               recall,
		"policies: {base: {tools: [recall]}, default: {extends: base, mode: tools}}": recall,
		"policies: {base: {mode: tools, tools: {max_rounds: 16, trace: on, offer: [search_files]}}, default: {extends: base, tools: {max_tokens: 256, offer: [recall]}}}": of(func(p *tools.Policy) {
			p.Offer, p.MaxRounds, p.MaxTokens, p.Trace = []tools.ToolName{"recall"}, 16, 256, true
		}),
		"policies: {base: {mode: tools, tools: {max_rounds: 2}}, default: {extends: base, tools: [recall]}}": of(func(p *tools.Policy) {
			p.Offer, p.MaxRounds = []tools.ToolName{"recall"}, 2
		}),
		"policies: {default: {mode: tools, knowledge: [faq], tools: {protocol: xml, first_search: false, timeout: 5s, preamble: hide, heartbeat: off}}}": {
			Offer: defaults.Offer, Bases: both[1:], XML: true, MaxRounds: 4, MaxTokens: 8000, Timeout: 5 * time.Second, HidePreamble: true, NoHeartbeat: true,
		},
	} {
		c, err := config.Load(disk{"c.yaml": up + bases + file}.source("c.yaml"))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		p, _ := c.Tenant("default")
		if diff := cmp.Diff(want, p.Tools); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// An override may add tools for some models, or remove them.
func TestToolsOfOverrides(t *testing.T) {
	c, err := config.Load(disk{"c.yaml": up + "policies: {default: {tools: {max_rounds: 2}, overrides: [{models: [a], mode: tools, tools: [recall]}, {models: [b], mode: off}]}}"}.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := c.Tenant("default")
	a, b := p.Overrides[0].Policy.Tools, p.Overrides[1].Policy.Tools
	if len(p.Tools.Offer)+len(b.Offer) > 0 || a.MaxRounds != 2 || len(a.Offer) != 1 || a.Offer[0] != tools.Recall {
		t.Errorf("%+v, %+v, %+v", p.Tools, a, b)
	}
}

// Tool settings do not change the hash of a policy without tools; with tools, each setting and
// each description of its bases does.
func TestToolsOffAreAsBefore(t *testing.T) {
	hashes := func(description, policy string) (hash, digest string) {
		t.Helper()
		c, err := config.Load(disk{"c.yaml": up + "knowledge: {docs: {path: ./docs" + description + "}}\npolicies: {default: {knowledge: [docs], " + policy + "}}"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("default")
		content, err := json.Marshal(p)
		if hashed := strings.Contains(string(content), `"Tools":`); err != nil || hashed != (p.Rewrite.Mode == rewrite.Tools) {
			t.Errorf("%s: the hash is of %s, %v", policy, content, err)
		}
		return p.Hash, p.Rewrite.Digest
	}
	plain, _ := hashes("", "mode: inject")
	for _, policy := range []string{"mode: inject, tools: [recall]", "mode: inject, tools: {max_rounds: 2, trace: on}"} {
		if off, _ := hashes(", description: Rules", policy); off != plain {
			t.Errorf("%s: hash %s, want %s", policy, off, plain)
		}
	}
	seen := map[string]string{}
	for _, one := range [][2]string{
		{"", "mode: tools"}, {", description: Rules", "mode: tools"}, {"", "mode: tools, tools: [recall]"}, {"", "mode: tools, tools: [recall, search_files]"},
		{"", "mode: tools, tools: {protocol: xml}"}, {"", "mode: tools, tools: {first_search: false}"}, {"", "mode: tools, tools: {max_rounds: 5}"},
		{"", "mode: tools, tools: {max_tokens: 9k}"}, {"", "mode: tools, tools: {timeout: 5s}"}, {"", "mode: tools, tools: {preamble: hide}"},
		{"", "mode: tools, tools: {trace: on}"}, {"", "mode: tools, tools: {heartbeat: off}"},
	} {
		hash, digest := hashes(one[0], one[1])
		if other, twice := seen[hash+digest]; twice {
			t.Errorf("%v and %s have one hash", one, other)
		}
		seen[hash+digest] = one[1]
	}
}

// Tools that cannot be offered are refused at their position.
func TestToolsRefused(t *testing.T) {
	for policy, want := range map[string]string{
		"tools: [recal]":                         `c.yaml:2:30: policies.default.tools.offer[0]: "recal" is none of search_knowledge, read_knowledge, search_files, recall; did you mean recall?`,
		"tools: [recall, recall]":                `c.yaml:2:38: policies.default.tools.offer[1]: "recall" is listed twice`,
		"tools: {offer: []}":                     "c.yaml:2:37: policies.default.tools.offer: is blank",
		"tools: []":                              "c.yaml:2:29: policies.default.tools: is blank",
		"tools: recall":                          "c.yaml:2:29: policies.default.tools: expected a list of tools, as in [search_knowledge, read_knowledge], or a map, got a value",
		"tools: {ofer: [recall]}":                `c.yaml:2:30: policies.default.tools.ofer: unknown key; did you mean offer?`,
		"tools: {max_rounds: 0}":                 "c.yaml:2:42: policies.default.tools.max_rounds: 0 is out of range; use 1 to 16",
		"tools: {max_rounds: 17}":                "policies.default.tools.max_rounds: 17 is out of range; use 1 to 16",
		"tools: {max_tokens: 255}":               "policies.default.tools.max_tokens: 255 is out of range; use 256 to 10M",
		"tools: {timeout: -1s}":                  "policies.default.tools.timeout: -1s is out of range",
		"tools: {protocol: json}":                `policies.default.tools.protocol: "json" is none of functions, xml`,
		"tools: {first_search: yes}":             "policies.default.tools.first_search",
		"overrides: [{models: [a], tools: [x]}]": "policies.default.overrides[0].tools.offer[0]",
	} {
		_, err := config.Load(disk{"c.yaml": up + "policies: {default: {" + policy + "}}"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", policy, err, want)
		}
	}
	for description, want := range map[string]string{
		strings.Repeat("ä", 500): "", strings.Repeat("ä", 501): "c.yaml:2:44: knowledge.docs.description: has 501 characters; it has at most 500",
		`" "`: "knowledge.docs.description: is blank",
	} {
		_, err := config.Load(disk{"c.yaml": up + "knowledge: {docs: {path: ./d, description: " + description + "}}"}.source("c.yaml"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v, want %s", description, err, want)
		}
	}
}
