package diff_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/config/diff"
	"sidenote/cmd/sidenote/internal/config/schema"
)

// load loads a configuration where KEY and TOKEN are secrets of the environment.
func load(t *testing.T, text, key string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Source{
		Path: "c.yaml",
		Read: func(string) ([]byte, error) { return []byte(text), nil },
		Env: func(name string) (string, bool) {
			return map[string]string{"KEY": key, "TOKEN": "admin-canary", "REDIS": "redis://:" + key + "@redis.test"}[name], true
		},
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

const (
	digestA = "5cae8f73dedaa9e38d1bfaf1e11fbe7dff5f1b2fd9c6d2ba2ce62aaaeb1e4d2a"
	digestB = "9cae8f73dedaa9e38d1bfaf1e11fbe7dff5f1b2fd9c6d2ba2ce62aaaeb1e4d2b"
	digestC = "1cae8f73dedaa9e38d1bfaf1e11fbe7dff5f1b2fd9c6d2ba2ce62aaaeb1e4d2c"
)

const before = `
upstreams: {api: {base_url: https://u.test/v1, api_key: {env: KEY}}, other: http://o.test}
knowledge: {docs: ./docs, hr: ./hr}
policies:
  base: {upstream: api, knowledge: [docs], retrieval: {top_k: 6}}
  strict: {extends: base, grounding: strict}
  unused: {upstream: other}
tenants:
  acme: {keys: [{sha256: ` + digestA + `}], policy: base}
  gone: {keys: [{sha256: ` + digestB + `}], policy: base}
  hr: {keys: [{sha256: ` + digestC + `}], policy: strict, knowledge: [hr]}
`

// What a change does to a tenant is told by its whole policy: inherited values count, and
// so do its upstream and bases. What nobody uses touches nobody.
func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ replace, by, want string }{
		"nothing":                {"", "", "nothing changes\n"},
		"order and spelling":     {"top_k: 6", "top_k: '6', deadline: 0.3s", "nothing changes\n"},
		"an unused policy":       {"unused: {upstream: other}", "unused: {upstream: api}", "nothing changes\n"},
		"inherited":              {"top_k: 6", "top_k: 7", "3 tenants changed: acme, gone, hr\n  retrieval.top_k: 6 → 7\n"},
		"one that extends":       {"grounding: strict", "grounding: default", "tenant changed: hr\n  grounding: strict → default\n  on_empty: notice → pass\n"},
		"a filter":               {"policy: strict,", "policy: strict, filters: [{type: eq, key: a, value: b}],", "tenant changed: hr\n  filters: not set → [{type: eq, key: a, value: b}]\n"},
		"removed":                {"  gone: {keys: [{sha256: " + digestB + "}], policy: base}\n", "", "tenant removed: gone\n"},
		"added":                  {"tenants:\n", "tenants:\n  new: {keys: [{sha256: f" + digestB[1:] + "}], policy: base}\n", "tenant added: new\n"},
		"its policy":             {digestA + "}], policy: base", digestA + "}], policy: strict", "tenant changed: acme\n  grounding: default → strict\n  on_empty: pass → notice\n  policy: base → strict\n"},
		"a key more, before":     {"[{sha256: " + digestA, "[{sha256: f" + digestA[1:] + ", expires: 2099-12-31}, {sha256: " + digestA, "tenant changed: acme\n  keys.fcae8f73.sha256: not set → fcae8f73\n  keys.fcae8f73.expires: not set → 2099-12-31\n"},
		"its upstream's address": {"https://u.test/v1", "https://v.test/v1", "upstreams.api.base_url: https://u.test/v1 → https://v.test/v1\n3 tenants changed: acme, gone, hr\n  upstreams.api.base_url: https://u.test/v1 → https://v.test/v1\n"},
		"another's upstream":     {"http://o.test", "http://p.test", "upstreams.other.base_url: http://o.test → http://p.test\n"},
		"its base":               {"hr: ./hr}", "hr: ./people}", "knowledge.hr.path: hr → people\ntenant changed: hr\n  knowledge.hr.path: hr → people\n"},
		"a limit":                {"\nupstreams", "\nconcurrency: 2k\nupstreams", "concurrency: 1024 → 2000\n"},
		"where a secret is":      {"{env: KEY}", "{env: TOKEN}", "upstreams.api.api_key: env KEY → env TOKEN\n3 tenants changed: acme, gone, hr\n  upstreams.api.api_key: env KEY → env TOKEN\n"},
		"unknown callers":        {"\ntenants", "\nidentity: {unknown: acme}\ntenants", "identity.unknown: not set → acme\n"},
	} {
		next := strings.Replace(before, c.replace, c.by, 1)
		got := diff.Compare(load(t, before, "sk-canary"), load(t, next, "sk-canary"))
		if got.String() != c.want {
			t.Errorf("%s:\ngot\n%swant\n%s", name, got, c.want)
		}
		if back := diff.Compare(load(t, next, "sk-canary"), load(t, before, "sk-canary")); len(back.Tenants) != len(got.Tenants) || len(back.Keys) != len(got.Keys) || back.Empty() != got.Empty() {
			t.Errorf("%s: the other way round it is\n%s", name, back)
		}
	}
}

// A secret whose text is another is a change, and no text of it shows. (T28)
func TestT28CompareShowsNoSecret(t *testing.T) {
	const text = "upstream: {base_url: https://u.test, api_key: {env: KEY}}\nadmin: {token: {env: TOKEN}}\nredis: {url: {env: REDIS}}\n"
	changes := diff.Compare(load(t, text, "sk-canary-1"), load(t, text, "sk-canary-2"))
	want := "upstream.api_key: env KEY, and what is read there has changed\nredis.url: env REDIS, and what is read there has changed\n" +
		"tenant changed: default\n  upstream.api_key: env KEY, and what is read there has changed\n"
	if changes.String() != want {
		t.Errorf("got\n%swant\n%s", changes, want)
	}
	encoded, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%s %v %+v %#v", encoded, changes, changes, changes); strings.Contains(all, "canary") {
		t.Errorf("a secret shows in %s", all)
	}
}

// The JSON is for scripts: lists are never null, and what is not so is left out.
func TestCompareJSON(t *testing.T) {
	text := func(c diff.Changes) string {
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	same := load(t, before, "k")
	if got := text(diff.Compare(same, same)); got != `{"tenants":[],"keys":[]}` {
		t.Errorf("got %s", got)
	}
	next := load(t, strings.Replace(before, "\nupstreams", "\nlisten: 127.0.0.1:9\nupstreams", 1), "k")
	if d := cmp.Diff(`{"tenants":[],"keys":[{"key":"listen","old":"127.0.0.1:8080","new":"127.0.0.1:9"}]}`, text(diff.Compare(same, next))); d != "" {
		t.Error(d)
	}
}

// Each key of a configuration, changed by itself, is told by its name.
func TestCompareSeesEachKey(t *testing.T) {
	same := load(t, before, "k")
	for _, f := range schema.Fields(reflect.TypeFor[config.Config]()) {
		if f.Key == "policies" || f.Key == "tenants" {
			continue // compared by tenant
		}
		next := *same
		set(reflect.ValueOf(&next).Elem().FieldByIndex(f.Index))
		changes := diff.Compare(same, &next)
		if len(changes.Keys) == 0 || !strings.HasPrefix(changes.Keys[0].Key, f.Key) {
			t.Errorf("%s: changed, and told as %v", f.Key, changes)
		}
	}
}

// set gives v, or something in it, another value.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range schema.Fields(v.Type()) {
			if k := v.FieldByIndex(f.Index).Kind(); k != reflect.Struct || len(schema.Fields(f.Type)) > 0 {
				set(v.FieldByIndex(f.Index))
				return
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(config.Name("other")), reflect.Zero(v.Type().Elem()))
	case reflect.Slice:
		elem := reflect.New(v.Type().Elem()).Elem()
		set(elem)
		v.Set(reflect.Append(v, elem))
	case reflect.String:
		v.SetString("changed")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	}
}
