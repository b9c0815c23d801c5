package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A path in place of the map of bases is the folder of a single base, which is named after it.
// Relative paths start at the folder of the file.
func TestKnowledgeMayBeOneFolder(t *testing.T) {
	for path, want := range map[string]config.Name{
		"./docs": "docs", "docs/": "docs", "../Hand Book": "hand-book", "/srv/kb": "kb", "C:\\kb\\Legal.v2": "c-kb-legal-v2",
	} {
		if filepath.Separator == '\\' && strings.Contains(path, "C:") {
			want = "legal-v2"
		}
		cfg, err := config.Load(disk{"conf/c.yaml": up + "knowledge: " + path + "\n"}.source("conf/c.yaml"))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		base, ok := cfg.Knowledge[want]
		if len(cfg.Knowledge) != 1 || !ok || base.Path == "" || base.Engine != config.EngineEmbedded {
			t.Errorf("%s: %+v, want base %s", path, cfg.Knowledge, want)
		}
	}
	for value, want := range map[string]string{
		"docs":           `c.yaml:2:12: knowledge: expected a map such as {docs: ./docs} or a path such as ./docs, got "docs"`,
		"docs=./docs":    `c.yaml:2:12: knowledge: expected a map such as {docs: ./docs} or a path such as ./docs, got "docs=./docs"`,
		"s3://docs/a":    `c.yaml:2:12: knowledge: "s3://docs/a" is not a folder: only local folders are read`,
		"[./docs, ./kb]": "c.yaml:2:12: knowledge: expected a map, got a list",
	} {
		_, err := config.Load(disk{"c.yaml": up + "knowledge: " + value + "\n"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", value, err, want)
		}
	}
}

// The error for a misplaced top-level key says where it belongs.
func TestMisplacedKeysAreToldWhereTheyBelong(t *testing.T) {
	for line, want := range map[string]string{
		"planner: {model: m}":   "c.yaml:2:1: planner: unknown key; it belongs in policies.NAME",
		"context_tokens: 10":    "context_tokens: unknown key; it belongs in policies.NAME",
		"retrieval: {top_k: 3}": "retrieval: unknown key; it belongs in policies.NAME or policies.NAME.on_failure",
		"keys: [x]":             "keys: unknown key; it belongs in tenants.NAME",
		"base_url: http://u":    "base_url: unknown key; it belongs in upstream or ",
		"window: 10":            "window: unknown key; it belongs in models",
		"polices: {}":           "polices: unknown key; did you mean policies?",
		"nothing: 1":            "nothing: unknown key\n",
	} {
		_, err := config.Load(disk{"c.yaml": up + line + "\n"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%s:\n%v\nwant %s", line, err, want)
		}
	}
}

// A path that is a URL is not reported as a missing folder.
func TestURLsAreNoFolders(t *testing.T) {
	for path, want := range map[string]string{
		"s3://bucket/docs": "scheme s3; only local folders and files are read", "https://example.com/docs": "scheme https;", "file:///srv/docs": "scheme file;", "gs://b": "scheme gs;",
		"./nowhere": "not found", "./no:where": "not found",
	} {
		cfg, err := config.Load(disk{"c.yaml": up + "knowledge: {docs: {path: '" + path + "'}}\n"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.CheckFolders(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// A word for yes or no is not taken for a misspelled word of the opposite meaning.
func TestYesAndNoKeepTheirSense(t *testing.T) {
	for value, want := range map[string]string{
		"citations: no":     "; did you mean off?",
		"citations: false":  "; did you mean off?",
		"citations: yes":    "; did you mean on?",
		"citations: True":   "; did you mean on?",
		"citations: atuo":   "; did you mean auto?",
		"annotations: no":   "; did you mean off?",
		"annotations: true": "; did you mean on?",
	} {
		_, err := config.Load(disk{"c.yaml": up + "policies: {default: {" + value + "}}\n"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}

// The error for a claim in another notation shows the right one.
func TestClaimsInOtherNotations(t *testing.T) {
	for _, value := range []string{"$claims.dep", "{claims.dep}", "'{{ claims.dep }}'", "$(claims.dep)", "'%claims.dep%'", "$claim.dep"} {
		_, err := config.Load(disk{"c.yaml": up + "policies: {default: {filters: [{type: eq, key: dep, value: '" + strings.Trim(value, "'") + "'}]}}\n"}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), "write ${claims.dep}") {
			t.Errorf("%s: %v", value, err)
		}
	}
	for _, value := range []string{"claims", "insurance claims", "$5", "claims.dep and more"} {
		if _, err := config.Load(disk{"c.yaml": up + "policies: {default: {filters: [{type: eq, key: dep, value: '" + value + "'}]}}\n"}.source("c.yaml")); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}
