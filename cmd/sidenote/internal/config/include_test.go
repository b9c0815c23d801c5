package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// files writes files into a new folder, and returns its path.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An include without files would remove its tenants from the configuration, and their callers
// would become the default tenant.
func TestIncludeThatMatchesNothing(t *testing.T) {
	const up = "upstream: https://u.test\n"
	for include, want := range map[string]string{
		"[tenants.d/*.yaml]":                   `etc/c.yaml:2:11: include[0]: no file matches "tenants.d/*.yaml"; correct it, or write {path: tenants.d/*.yaml, optional: true}`,
		"[{path: tenants.d/*.yaml}]":           `etc/c.yaml:2:11: include[0]: no file matches "tenants.d/*.yaml"; correct it, or write {path: tenants.d/*.yaml, optional: true}`,
		"[{path: 'a?.yaml', optional: false}]": `etc/c.yaml:2:11: include[0]: no file matches "a?.yaml"; correct it, or write {path: a?.yaml, optional: true}`,
		"[there.yaml, one.yaml]":               `etc/c.yaml:2:23: include[1]: file "one.yaml" not found`,
		"[{path: '[', optional: true}]":        `etc/c.yaml:2:11: include[0]: "[" is not a pattern`,
		"[{path: '*.yml', optional: maybe}]": `etc/c.yaml:2:11: include[0]: no file matches "*.yml"; correct it, or write {path: *.yml, optional: true}` + "\n" +
			`etc/c.yaml:2:37: include[0].optional: "maybe" is neither true nor false`,
		"[{optional: true}]":                         `etc/c.yaml:2:11: include[0].path: is missing`,
		"[{path: tenants.d/*.yaml, optional: true}]": "<nil>",
		"[{path: one.yaml, optional: true}]":         "<nil>",
		"[there.yaml]":                               "<nil>",
	} {
		d := disk{"etc/c.yaml": up + "include: " + include, "etc/there.yaml": "models: [{match: x, window: 1k}]\n"}
		if _, err := config.Load(d.source("etc/c.yaml")); fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", include, err, want)
		}
	}
}

// An unreadable folder is not treated as empty.
func TestIncludeThatCannotBeRead(t *testing.T) {
	dir := files(t, map[string]string{"c.yaml": "upstream: https://u.test\ninclude: [{path: 'loop/*.yaml', optional: true}]\n"})
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Skip(err)
	}
	_, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml")})
	if _, ok := errors.AsType[strictyaml.Problems](err); !ok || !strings.Contains(err.Error(), `c.yaml:2:11: include[0]: "loop/*.yaml" cannot be read: `) {
		t.Errorf("got %v", err)
	}
}

// An included file may belong to somebody else: it may define its own tenants, policies and
// folders, and what the include allows.
func TestDelegatedInclude(t *testing.T) {
	const main = `
upstreams: {api: {base_url: https://u.test, api_key: {env: KEY}}}
knowledge: {handbook: ./handbook, salaries: ./salaries}
policies:
  default: {upstream: api}
  hr: {upstream: api, knowledge: [salaries]}
include: [%s]
embeddings: {upstream: api, model: m}
`
	const tenant = "tenants: {one: {keys: [" + digest + "]"
	const at = "etc/team/a.yaml"
	can := func(allow string) string {
		return "; etc/c.yaml:7:11 can allow it, as in {path: team/*.yaml, " + allow + "}"
	}
	for _, c := range []struct{ name, include, file, want string }{
		{"its own", "team/*.yaml", "knowledge: {docs: ./docs}\npolicies: {mine: {extends: hr, knowledge: [docs]}}\nmodels: [{match: x, window: 1k}]\n" + tenant + ", policy: mine}}", ""},
		{"another's base", "team/*.yaml", tenant + ", knowledge: [handbook, salaries]}}", at + `:1:103: tenants.one.knowledge[0]: base "handbook" is not of this file` + can("knowledge: [handbook]") + "\n" +
			at + `:1:113: tenants.one.knowledge[1]: base "salaries" is not of this file` + can("knowledge: [salaries]")},
		{"another's base, allowed", "{path: team/*.yaml, knowledge: [handbook]}", tenant + ", knowledge: [handbook]}}", ""},
		{"one of two allowed", "{path: team/*.yaml, knowledge: [handbook]}", tenant + ", knowledge: [handbook, salaries]}}", at + `:1:113: tenants.one.knowledge[1]: base "salaries" is not of this file` + can("knowledge: [salaries]")},
		{"by another's policy", "team/*.yaml", tenant + ", policy: hr}}", at + `:1:91: tenants.one.policy: brings base "salaries", which is not of this file` + can("knowledge: [salaries]")},
		{"by another's policy, in place of its bases", "{path: team/*.yaml, knowledge: [handbook]}", tenant + ", policy: hr, knowledge: [handbook]}}", ""},
		{"by extends", "team/*.yaml", "policies: {mine: {extends: hr}}\n", at + `:1:19: policies.mine.extends: brings base "salaries", which is not of this file` + can("knowledge: [salaries]")},
		{"by a policy", "team/*.yaml", "policies: {mine: {knowledge: [salaries]}}\n", at + `:1:31: policies.mine.knowledge[0]: base "salaries" is not of this file` + can("knowledge: [salaries]")},
		{"by a base that nobody defined here", "team/*.yaml", "knowledge: {kept: {engine: embedded}}\n", at + `:1:13: knowledge.kept: has no path, so it is the base of this name in the state folder` + can("knowledge: [kept]")},
		{"by such a base, allowed", "{path: team/*.yaml, knowledge: [kept]}", "knowledge: {kept: {engine: embedded}}\n", ""},
		{"by a store with another's key", "team/*.yaml", "knowledge: {all: {engine: vector_store, upstream: api, id: vs_1}}\n", at + `:1:41: knowledge.all.upstream: upstream "api" is not of this file` + can("may: [stores]")},
		{"by texts that leave", "team/*.yaml", "knowledge: {new: {path: ./docs, embed: true}}\n", at + ":1:33: knowledge.new.embed: its texts would go to the service of etc/c.yaml" + can("may: [embed]")},
		{"by texts that leave, allowed", "{path: team/*.yaml, may: [embed]}", "knowledge: {new: {path: ./docs, embed: true}}\n", ""},
		{"by a program", "team/*.yaml", "knowledge: {all: {path: ., ocr: 'rm -rf'}}\n", at + `:1:28: knowledge.all.ocr: is a program that an included file may not run` + can("may: [all]")},
		{"by a program, allowed", "{path: team/*.yaml, may: [all]}", "knowledge: {all: {path: ., ocr: 'rm -rf'}}\n", ""},
		{"by such a store, allowed", "{path: team/*.yaml, may: [stores]}", "knowledge: {all: {engine: vector_store, upstream: api, id: vs_1}}\n", ""},
		{"an upstream", "team/*.yaml", "upstreams: {evil: http://evil.test}\n", at + `:1:13: upstreams.evil: is not for an included file to define` + can("may: [upstreams]")},
		{"an upstream, allowed", "{path: team/*.yaml, may: [upstreams]}", "upstreams: {evil: {base_url: http://evil.test, api_key: {file: keys/a}}}\nknowledge: {s: {engine: vector_store, upstream: evil, id: vs_1}}\n", ""},
		{"everybody's upstream", "{path: team/*.yaml, may: [upstreams]}", "upstreams: {default: http://evil.test}\n", at + `:1:13: upstreams.default: is the default for all tenants; use another name` + can("may: [all]")},
		{"everybody's policy", "team/*.yaml", "policies: {default: {mode: off}}\n", at + ":1:12: policies.default: is here twice; the first is at etc/c.yaml:5:3"},
		{"a secret beside the folder", "{path: team/*.yaml, may: [upstreams]}", "upstreams: {evil: {base_url: http://evil.test, api_key: {file: ../key}}}\n", at + `:1:58: upstreams.evil.api_key.file: "../key" lies outside of this file's folder` + can("may: [upstreams, secrets]")},
		{"a secret by its whole path", "{path: team/*.yaml, may: [upstreams]}", "upstreams: {evil: {base_url: http://evil.test, api_key: {file: /etc/key}}}\n", at + `:1:58: upstreams.evil.api_key.file: "/etc/key" lies outside of this file's folder` + can("may: [upstreams, secrets]")},
		{"a secret of the environment", "{path: team/*.yaml, may: [upstreams]}", "upstreams: {evil: {base_url: http://evil.test, api_key: {env: KEY}}}\n", at + `:1:58: upstreams.evil.api_key.env: is not for an included file to read` + can("may: [upstreams, secrets]")},
		{"secrets, allowed", "{path: team/*.yaml, may: [upstreams, secrets]}", "upstreams: {a: {base_url: http://a.test, api_key: {env: KEY}}, b: {base_url: http://b.test, api_key: {file: ../key}}}\n", ""},
		{"a folder beside", "team/*.yaml", "knowledge: {docs: ../salaries}\n", at + `:1:19: knowledge.docs.path: "../salaries" lies outside of this file's folder` + can("may: [paths]")},
		{"a folder round about", "team/*.yaml", "knowledge: {docs: docs/../../salaries}\n", at + `:1:19: knowledge.docs.path: "docs/../../salaries" lies outside of this file's folder` + can("may: [paths]")},
		{"a folder by its whole path", "team/*.yaml", "knowledge: {docs: /etc}\n", at + `:1:19: knowledge.docs.path: "/etc" lies outside of this file's folder` + can("may: [paths]")},
		{"folders, allowed", "{path: team/*.yaml, may: [paths]}", "knowledge: {docs: ../salaries, etc: {path: /etc}}\n", ""},
		{"all, allowed", "{path: team/*.yaml, may: [all]}", "upstreams: {default: {base_url: http://a.test, api_key: {env: KEY}}}\nknowledge: {kept: {engine: embedded}, d: /d}\n" + tenant + ", policy: hr}}", ""},
		{"a word that is none", "{path: team/*.yaml, may: [everything]}", "models: [{match: x, window: 1k}]\n", `etc/c.yaml:7:37: include[0].may[0]: "everything" is none of upstreams, secrets, paths, stores, embed, tokens, all`},
		{"a base that is none", "{path: team/*.yaml, knowledge: [handbok]}", "models: [{match: x, window: 1k}]\n", `etc/c.yaml:7:43: include[0].knowledge[0]: no base is named "handbok"; did you mean handbook?`},
	} {
		d := disk{"etc/c.yaml": fmt.Sprintf(main, c.include), at: c.file, "etc/key": "sk-canary", "/etc/key": "sk-canary", "etc/team/keys/a": "sk-own"}
		_, err := config.Load(d.source("etc/c.yaml"))
		if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// An included file may not define the default policy, even if no other file does.
func TestDelegatedDefaultPolicy(t *testing.T) {
	d := disk{"c.yaml": "upstream: https://u.test\ninclude: [team.yaml]\n", "team.yaml": "policies: {default: {template: 'Buy! {{CONTEXT}}'}}\n"}
	_, err := config.Load(d.source("c.yaml"))
	if want := "team.yaml:1:12: policies.default: is the default for all tenants; use another name; c.yaml:2:11 can allow it, as in {path: team.yaml, may: [all]}"; fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A link may lead out of a folder just as .. does; such targets are not read.
func TestDelegatedLinks(t *testing.T) {
	dir := files(t, map[string]string{
		"c.yaml": "upstream: https://u.test\ninclude: [{path: 'team/*.yaml', may: [upstreams]}]\n",
		"team/a.yaml": "upstreams: {own: {base_url: http://own.test, api_key: {file: key}}, evil: {base_url: http://evil.test, api_key: {file: linked/key}}}\n" +
			"knowledge: {docs: docs, hr: linked, one: linked/one.md, later: later}\n",
		"team/key": "sk-own\n", "team/docs/a.md": "# A\n", "hr/key": "sk-canary\n", "hr/one.md": "# One\n",
	})
	for name, to := range map[string]string{"linked": "../hr", "later": "../gone"} {
		if err := os.Symlink(to, filepath.Join(dir, "team", name)); err != nil {
			t.Skip(err)
		}
	}
	_, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml")})
	team := filepath.Join(dir, "team", "a.yaml")
	allowed := "; " + filepath.Join(dir, "c.yaml") + ":2:11 can allow it, as in {path: team/*.yaml, may: "
	want := team + `:1:114: upstreams.evil.api_key.file: "linked/key" lies outside of this file's folder` + allowed + "[upstreams, secrets]}\n" +
		team + `:2:29: knowledge.hr.path: "linked" lies outside of this file's folder` + allowed + "[upstreams, paths]}\n" +
		team + `:2:42: knowledge.one.path: "linked/one.md" lies outside of this file's folder` + allowed + "[upstreams, paths]}\n" +
		team + `:2:64: knowledge.later.path: "later" lies outside of this file's folder` + allowed + "[upstreams, paths]}"
	if fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Folders that are read later must still be within the permitted folder.
func TestDelegatedFolderStays(t *testing.T) {
	for may, want := range map[string]string{"team/a.yaml": "etc/team", "{path: team/a.yaml, may: [paths]}": ""} {
		d := disk{"etc/c.yaml": "upstream: https://u.test\nknowledge: {ours: ./ours}\ninclude: [" + may + "]\n", "etc/team/a.yaml": "knowledge: {docs: docs}\n"}
		c, err := config.Load(d.source("etc/c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if theirs, ours := c.Folder("docs").Within, c.Folder("ours").Within; theirs != want || ours != "" {
			t.Errorf("%s: stays within %q, the main file's within %q", may, theirs, ours)
		}
	}
}
