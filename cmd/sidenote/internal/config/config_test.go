package config_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/retrieval/synonyms"
	"sidenote/rewrite"
)

// A disk holds files by path, and an environment.
type disk map[string]string

// recordKey is a key of records.
const recordKey = "one AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func (d disk) source(path string) config.Source {
	return config.Source{Path: path, Read: d.read, Glob: d.glob, Env: env(map[string]string{"KEY": "sk-canary", "RECORD": recordKey})}
}

func (d disk) read(name string) ([]byte, error) {
	if text, ok := d[name]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (d disk) glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d)), func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return !ok
	}), nil
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Load(disk{"c.yaml": text}.source("c.yaml"))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

const digest = "5cae8f73dedaa9e38d1bfaf1e11fbe7dff5f1b2fd9c6d2ba2ce62aaaeb1e4d2a"

// templates compares templates by their text.
var templates = cmp.Comparer(func(a, b rewrite.Template) bool { return a.String() == b.String() })

// secrets compares secrets by their text.
var secrets = cmp.Comparer(func(a, b proxy.Secret) bool { return a.Reveal() == b.Reveal() })

func TestOneApp(t *testing.T) {
	c := load(t, "upstream: https://api.openai.com/v1\nknowledge: {docs: ./docs}\n")
	p := c.Proxy()
	if got := p.Upstreams["default"].BaseURL.String(); got != "https://api.openai.com/v1" {
		t.Errorf("upstream %s", got)
	}
	if c.Knowledge["docs"].Path != "docs" {
		t.Errorf("knowledge path %q", c.Knowledge["docs"].Path)
	}
	want := rewrite.DefaultPolicy()
	want.Tenant, want.Upstream, want.Knowledge, want.OnEmpty = "default", "default", []string{"docs"}, rewrite.EmptyPass
	want.Digest, want.Search.Synonyms = p.Tenants.Unknown.Rewrite.Digest, synonyms.Default()
	if d := cmp.Diff(want, p.Tenants.Unknown.Rewrite, templates); d != "" || len(want.Digest) != 64 {
		t.Errorf("policy of everybody (-want +got):\n%s", d)
	}
	if p.Tenants.Unknown.Routes == nil || len(p.Tenants.Unknown.Routes) != 0 {
		t.Errorf("routes %v are limited although the client's own key is used", p.Tenants.Unknown.Routes)
	}
	if d := cmp.Diff(proxy.DefaultTimeouts(), p.Timeouts); d != "" {
		t.Error(d)
	}
}

// Load limits reach the proxy; without a setting, connections are limited by the limit of open
// files.
func TestLoadBounds(t *testing.T) {
	const up = "upstream: https://api.openai.com/v1\n"
	if p := load(t, up).Proxy(); p.Concurrency != 1024 || p.Connections != 0 {
		t.Errorf("by default %d requests, %d connections", p.Concurrency, p.Connections)
	}
	if p := load(t, up+"concurrency: 5\nconnections: 2k\n").Proxy(); p.Concurrency != 5 || p.Connections != 2000 {
		t.Errorf("%d requests, %d connections", p.Concurrency, p.Connections)
	}
}

func TestExtends(t *testing.T) {
	c := load(t, `
upstream: {base_url: https://u.test/v1, api_key: {env: KEY}}
knowledge: {a: {path: ./a, relevance_threshold: 0.6}, b: {path: ./b, relevance_threshold: auto}}
policies:
  base:
    context_tokens: 3k
    knowledge: [a, b]
    retrieval: {deadline: 100ms, top_k: 9}
    on_failure: {retrieval: refuse}
    components: [{name: rules, text: Be kind., priority: high}, {name: more, text: Be brief.}]
  middle: {extends: base, retrieval: {score_threshold: 2.5, dense_weight: 0.7, fusion: rrf}}
  leaf: {extends: middle, knowledge: [b], grounding: strict, retrieval: {top_k: 3}, components: [{name: only, text: x}]}
identity: {unknown: open}
listen: localhost:8080
tenants:
  team: {keys: [{sha256: `+digest+`, expires: 2027-01-31}], policy: leaf}
  open: {policy: middle, knowledge: [a]}
`)
	got, _ := c.Tenant("team")
	if d := cmp.Diff(retrieval.Settings{TopK: 3, NumCandidates: 50, MaxPerDocument: 3, MaxVariants: 3, ScoreThreshold: 2.5, Deadline: 100 * time.Millisecond, DenseWeight: 0.7, Fusion: retrieval.FusionRanks, Synonyms: synonyms.Default()}, got.Rewrite.Search); d != "" {
		t.Errorf("maps are merged (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]retrieval.Threshold{{Knowledge: "a", Relevance: 0.6}}, c.Proxy().Tenants.Unknown.Rewrite.Search.Thresholds); d != "" {
		t.Errorf("thresholds (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]rewrite.Component{{Name: "only", Text: "x", Priority: rewrite.PriorityMedium, Truncatable: true}}, got.Rewrite.Components); d != "" {
		t.Errorf("lists are replaced (-want +got):\n%s", d)
	}
	if got.Rewrite.ContextTokens != 3000 || !got.Rewrite.RefuseOnFailure || got.Rewrite.OnEmpty != rewrite.EmptyNotice {
		t.Errorf("inherited: %+v", got.Rewrite)
	}
	if !slices.Contains(got.Routes, "/chat/completions") {
		t.Errorf("Sidenote's own key reaches every route: %v", got.Routes)
	}
	open := *c.Proxy().Tenants.Unknown
	if open.Tenant != "open" || !slices.Equal(open.Rewrite.Knowledge, []string{"a"}) {
		t.Errorf("callers without a key get %+v", open)
	}
	if got.Hash == open.Hash || len(got.Hash) != 8 {
		t.Errorf("hashes %q and %q", got.Hash, open.Hash)
	}
	key := c.Proxy().Tenants.Keys[0]
	if want := time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC); !key.Expires.Equal(want) {
		t.Errorf("key ends at %v, want %v", key.Expires, want)
	}
}

// A tenant's filters are combined with those of its policy; between policies they are a list like
// any other.
func TestFilters(t *testing.T) {
	c := load(t, `
upstream: https://u.test
policies:
  base: {filters: [{type: eq, key: audience, value: public}, {type: ne, key: draft, value: true}]}
  same: {extends: base, grounding: strict}
  other: {extends: base, filters: [{type: in, key: year, value: [2024, "2024", 0.5]}]}
  open: {mode: shadow}
tenants:
  a: {keys: [`+digest[:63]+`1], policy: same, filters: [{type: prefix, key: team, value: hr}]}
  b: {keys: [`+digest[:63]+`2], policy: other}
  c: {keys: [`+digest[:63]+`3], policy: open, filters: [{type: or, filters: [{type: eq, key: team, value: hr}, {type: eq, key: team, value: it}]}]}
  d: {keys: [`+digest[:63]+`4], policy: open}
`)
	const public, draft, team = `{"type":"eq","key":"audience","value":"public"}`, `{"type":"ne","key":"draft","value":true}`, `{"type":"prefix","key":"team","value":"hr"}`
	for tenant, want := range map[config.Name]string{
		"a": `{"type":"and","filters":[` + public + `,` + draft + `,` + team + `]}`,
		"b": `{"type":"in","key":"year","value":["2024",0.5,2024]}`,
		"c": `{"type":"or","filters":[{"type":"eq","key":"team","value":"hr"},{"type":"eq","key":"team","value":"it"}]}`,
		"d": "",
	} {
		p, _ := c.Tenant(tenant)
		if got := p.Rewrite.Filter.String(); got != want || p.Rewrite.Strict() != (want != "") {
			t.Errorf("%s: strict %v, %s; want %s", tenant, p.Rewrite.Strict(), got, want)
		}
		// The output of check can be used as a policy.
		text, err := yaml.Marshal(map[string]any{"upstream": "https://u.test", "policies": map[string]any{"default": c.Policy(tenant)}})
		if err != nil {
			t.Fatal(err)
		}
		again, _ := load(t, string(text)).Tenant("default")
		if got := again.Rewrite.Filter.String(); got != want {
			t.Errorf("%s: printed as %s", tenant, text)
		}
	}
	d, _ := c.Tenant("d")
	if b, _ := c.Tenant("c"); b.Hash == d.Hash {
		t.Error("a filter does not change the hash of a policy")
	}
}

func TestInclude(t *testing.T) {
	d := disk{
		"etc/main.yaml":          "upstream: https://u.test\nknowledge: {a: ./a}\npolicies: {p: {knowledge: [a]}}\nmodels: [{match: x, window: 1k}]\ninclude: [tenants.d/*.yaml, {path: none/*.yaml, optional: true}]\n",
		"etc/tenants.d/one.yaml": "tenants: {one: {keys: [" + digest + "], policy: p, knowledge: [b]}}\nknowledge: {b: ./b}\nmodels: [{match: y, window: 2k}]\n",
	}
	c, err := config.Load(d.source("etc/main.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Knowledge["b"].Path; got != "etc/tenants.d/b" {
		t.Errorf("path in an included file: %q", got)
	}
	if len(c.Models) != 2 || c.Models[1].Match != "y" {
		t.Errorf("models %v", c.Models)
	}
	d["etc/tenants.d/two.yaml"] = "tenants: {one: {keys: [" + digest + "]}}\nlisten: 127.0.0.1:1\n"
	_, err = config.Load(d.source("etc/main.yaml"))
	want := "etc/tenants.d/two.yaml:1:11: tenants.one: is here twice; the first is at etc/tenants.d/one.yaml:1:11\n" +
		"etc/tenants.d/two.yaml:2:1: listen: unknown key"
	if fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestFlagsWin(t *testing.T) {
	src := disk{"c.yaml": "upstream: {base_url: https://file.test, api_key: {env: KEY}}\nknowledge: {a: ./a}\n"}.source("c.yaml")
	src.Flags = config.Flags{Listen: "127.0.0.1:9", Admin: "off", Upstream: "http://flag.test/v1", Knowledge: []string{"x=/b", "/c/My Docs/"}}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	up := c.Proxy().Upstreams["default"]
	if up.BaseURL.String() != "http://flag.test/v1" || up.APIKey.Reveal() != "" {
		t.Errorf("the file's key would be sent to the flag's upstream: %v %v", up.BaseURL, up.APIKey)
	}
	if c.Listen.String() != "127.0.0.1:9" || c.Admin.Listen != config.Off {
		t.Errorf("listeners %s %s", c.Listen, c.Admin.Listen)
	}
	want := config.Bases{"x": {Path: "/b", Engine: "embedded"}, "my-docs": {Path: "/c/My Docs/", Engine: "embedded"}}
	if !reflect.DeepEqual(want, c.Knowledge) {
		t.Errorf("bases %+v, want %+v", c.Knowledge, want)
	}
}

func TestFlagErrors(t *testing.T) {
	open := true
	for want, flags := range map[string]config.Flags{
		"upstream: is missing; name the API that requests go to, as in --upstream https://api.openai.com":       {},
		`--upstream: "api.openai.com" is not a URL; write it as in https://api.openai.com/v1`:                   {Upstream: "api.openai.com"},
		`--upstream: upstream.base_url: http://localhost:8080 is Sidenote's own address`:                        {Upstream: "http://localhost:8080"},
		`--upstream: upstream.base_url: http://[::1]:9 is Sidenote's own address`:                               {Upstream: "http://[::1]:9", Listen: ":9", Open: &open},
		`--listen: "8080" is not an address; write host:port, as in 127.0.0.1:8080`:                             {Upstream: "http://u.test", Listen: "8080"},
		`--admin: admin.listen: :8081 can be reached from other machines, so admin.token must be set`:           {Upstream: "http://u.test", Admin: ":8081"},
		`--telemetry: telemetry.listen: 0.0.0.0:8080 is taken by listen`:                                        {Upstream: "http://u.test", Telemetry: "0.0.0.0:8080"},
		`--knowledge: "Docs" is not a name; use 1 to 64 of a-z 0-9 _ -; for a folder of that name write ./Docs`: {Upstream: "http://u.test", Knowledge: []string{"Docs"}},
		`--knowledge: "a" is the name of both "/x/a" and "/y/a"; write NAME=PATH`:                               {Upstream: "http://u.test", Knowledge: []string{"/x/a", "/y/a"}},
		`--knowledge: "A B" is not a name; use 1 to 64 of a-z 0-9 _ -`:                                          {Upstream: "http://u.test", Knowledge: []string{"A B=/y"}},
		`--knowledge: "/文" gives no name of a-z 0-9 _ -; write NAME=PATH`:                                       {Upstream: "http://u.test", Knowledge: []string{"/文"}},
	} {
		if _, err := config.Load(config.Source{Flags: flags}); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestState(t *testing.T) {
	vars := map[string]string{"HOME": "/home/d", "XDG_STATE_HOME": "/xdg"}
	for want, c := range map[string]struct {
		text  string
		flags config.Flags
		env   map[string]string
	}{
		"/xdg/sidenote true":                 {env: vars},
		"/home/d/.local/state/sidenote true": {env: map[string]string{"HOME": "/home/d", "XDG_STATE_HOME": "relative"}},
		":memory: true":                      {},
		"conf/kept false":                    {text: "state: kept\n", env: vars},
		"conf/kept false followed":           {text: "state: {path: kept, follow: true}\n", env: vars},
		":memory: false":                     {text: "state: ':memory:'\n", env: vars},
		"flag false":                         {text: "state: kept\n", flags: config.Flags{State: "flag"}, env: vars},
		"/xdg/sidenote true followed":        {flags: config.Flags{Follow: true}, env: vars},
	} {
		src := disk{"conf/e.yaml": "upstream: http://u.test\n" + c.text}.source("conf/e.yaml")
		src.Flags, src.Env = c.flags, env(c.env)
		cfg, err := config.Load(src)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		got := fmt.Sprint(cfg.State.Path, " ", cfg.State.Default)
		if cfg.State.Follow {
			got += " followed"
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A base without a folder is a base of the state folder.
func TestKnowledgeWithoutPath(t *testing.T) {
	c := load(t, "upstream: http://u.test\nknowledge: {notes: {engine: embedded}}\n")
	if k := c.Knowledge["notes"]; k.Path != "" || k.MustExist {
		t.Errorf("%+v", k)
	}
	if err := c.CheckFolders(nil); err != nil {
		t.Error(err)
	}
	c, err := config.Load(config.Source{Flags: config.Flags{Upstream: "http://u.test", Knowledge: []string{"notes"}}})
	if err != nil || !c.Knowledge["notes"].MustExist {
		t.Errorf("%v", err)
	}
}

func TestNoSecretShows(t *testing.T) {
	c := load(t, "upstream: {base_url: https://u.test, api_key: {env: KEY}}\n")
	if key := c.Proxy().Upstreams["default"].APIKey; key.Reveal() != "sk-canary" {
		t.Fatalf("key was not read: %q", key.Reveal())
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", *c, *c, c.Upstream), fmt.Sprint(c.Proxy())} {
		if strings.Contains(text, "canary") {
			t.Errorf("the secret shows in %s", text)
		}
	}
}

// The policy that check prints is valid and equal.
func TestPolicyRoundTrip(t *testing.T) {
	const head = "upstream: {base_url: https://u.test, api_key: {env: KEY}}\nknowledge: {a: ./a}\npolicies:\n  default:\n"
	c := load(t, head+`
    mode: off
    template: "{{QUERY}}: \n{{CONTEXT}}"
    components: [{name: x, text: "a: b\n- c\n", truncatable: true, priority: low}]
    max_rewrite_bytes: 1536KiB
    retrieval: {deadline: 1500ms, score_threshold: 0.125}
`)
	text, err := yaml.Marshal(c.Policy("default"))
	if err != nil {
		t.Fatal(err)
	}
	again := load(t, head+"    "+strings.ReplaceAll(string(text), "\n", "\n    "))
	if d := cmp.Diff(c.Policy("default"), again.Policy("default"), templates, secrets); d != "" {
		t.Errorf("printed as\n%s(-want +got):\n%s", text, d)
	}
}

// A share is a percentage, and a policy inherits it; without one no upstream is asked.
func TestCacheDiagnostics(t *testing.T) {
	f := func(policies string, want float64) {
		t.Helper()
		c := load(t, "upstream: http://u.test\npolicies: "+policies+"\n")
		if p, _ := c.Tenant("default"); p.CacheDiagnostics != want {
			t.Errorf("%s: got %v, want %v", policies, p.CacheDiagnostics, want)
		}
	}
	f("{default: {}}", 0)
	f("{default: {cache_diagnostics: 0}}", 0)
	f("{default: {cache_diagnostics: 0.5%}}", .005)
	f("{base: {cache_diagnostics: 100%}, default: {extends: base}}", 1)
}

// The dense weight is measured unless a policy sets it; a policy that extends it can revert to
// auto.
func TestDenseWeight(t *testing.T) {
	c := load(t, `
upstream: https://u.test/v1
policies:
  default: {mode: inject}
  half: {retrieval: {dense_weight: 0.5}}
  back: {extends: half, retrieval: {dense_weight: auto, fusion: distribution}}
tenants:
  one: {keys: [{sha256: `+digest+`}], policy: default}
  two: {keys: [{sha256: `+strings.Repeat("b", 64)+`}], policy: half}
  three: {keys: [{sha256: `+strings.Repeat("c", 64)+`}], policy: back}
`)
	for tenant, want := range map[config.Name]float64{"one": 0, "two": .5, "three": 0} {
		p, ok := c.Tenant(tenant)
		if !ok || p.Rewrite.Search.DenseWeight != want || p.Rewrite.Search.Fusion != retrieval.FusionScores {
			t.Errorf("%s: %+v", tenant, p.Rewrite.Search)
		}
	}
}

// Components are truncatable by default, in a policy as in a request.
func TestTruncatableDefault(t *testing.T) {
	c := load(t, "upstream: http://127.0.0.1:1\npolicies: {default: {components: [{name: a, text: x}, {name: b, text: x, truncatable: false}, {name: c, text: x, truncatable: true}]}}\n")
	for i, want := range []bool{true, false, true} {
		if got := c.Proxy().Tenants.Unknown.Rewrite.Components[i]; got.Truncatable != want {
			t.Errorf("%s: truncatable %t", got.Name, got.Truncatable)
		}
	}
}
