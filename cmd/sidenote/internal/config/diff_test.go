package config_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// loadDiff loads a configuration in which KEY and TOKEN are secrets in the environment.
func loadDiff(t *testing.T, text, key string) *config.Config {
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

// The effect of a change on a tenant is derived from its complete policy, including inherited
// values, its upstream and its bases. Unused settings affect no tenant.
func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ replace, by, want string }{
		"nothing":                {"", "", "nothing changes\n"},
		"order and spelling":     {"top_k: 6", "top_k: '6', deadline: 0.3s", "nothing changes\n"},
		"an unused policy":       {"unused: {upstream: other}", "unused: {upstream: api}", "nothing changes\n"},
		"inherited":              {"top_k: 6", "top_k: 7", "3 tenants changed: acme, gone, hr\n  retrieval.top_k: 6 → 7\n"},
		"one that extends":       {"grounding: strict", "grounding: default", "tenant changed: hr\n  grounding: strict → default\n  on_empty: notice → pass\n  ladder: [no_stages, fewer_sources, shorter_sources, no_planner, refuse] → [no_stages, fewer_sources, shorter_sources, no_planner, no_sources, refuse]\n"},
		"a filter":               {"policy: strict,", "policy: strict, filters: [{type: eq, key: a, value: b}],", "tenant changed: hr\n  filters: not set → [{type: eq, key: a, value: b}]\n"},
		"what a base is for":     {"docs: ./docs", "docs: {path: ./docs, description: Rules}", "knowledge.docs.description: not set → Rules\n2 tenants changed: acme, gone\n  knowledge.docs.description: not set → Rules\n"},
		"removed":                {"  gone: {keys: [{sha256: " + digestB + "}], policy: base}\n", "", "tenant removed: gone\n"},
		"added":                  {"tenants:\n", "tenants:\n  new: {keys: [{sha256: f" + digestB[1:] + "}], policy: base}\n", "tenant added: new\n"},
		"its policy":             {digestA + "}], policy: base", digestA + "}], policy: strict", "tenant changed: acme\n  grounding: default → strict\n  on_empty: pass → notice\n  ladder: [no_stages, fewer_sources, shorter_sources, no_planner, no_sources, refuse] → [no_stages, fewer_sources, shorter_sources, no_planner, refuse]\n  policy: base → strict\n"},
		"a key more, before":     {"[{sha256: " + digestA, "[{sha256: f" + digestA[1:] + ", expires: 2099-12-31}, {sha256: " + digestA, "tenant changed: acme\n  keys.fcae8f73.sha256: not set → fcae8f73\n  keys.fcae8f73.expires: not set → 2099-12-31\n"},
		"its upstream's address": {"https://u.test/v1", "https://v.test/v1", "upstreams.api.base_url: https://u.test/v1 → https://v.test/v1\n3 tenants changed: acme, gone, hr\n  upstreams.api.base_url: https://u.test/v1 → https://v.test/v1\n"},
		"another's upstream":     {"http://o.test", "http://p.test", "upstreams.other.base_url: http://o.test → http://p.test\n"},
		"its base":               {"hr: ./hr}", "hr: ./people}", "knowledge.hr.path: hr → people (takes a restart)\ntenant changed: hr\n  knowledge.hr.path: hr → people (takes a restart)\n"},
		"a base more":            {"docs: ./docs,", "docs: ./docs, new: ./new,", "knowledge.new.path: not set → new\nknowledge.new.deletions: not set → keep\nknowledge.new.embed: not set → false\nknowledge.new.relevance_threshold: not set → auto\nknowledge.new.engine: not set → embedded\n"},
		"a store more":           {"docs: ./docs,", "docs: ./docs, new: {engine: vector_store, id: vs_1, upstream: api},", "knowledge.new.deletions: not set → keep (takes a restart)\nknowledge.new.embed: not set → false (takes a restart)\nknowledge.new.relevance_threshold: not set → auto (takes a restart)\nknowledge.new.engine: not set → vector_store (takes a restart)\nknowledge.new.upstream: not set → api (takes a restart)\nknowledge.new.id: not set → vs_1 (takes a restart)\n"},
		"a limit":                {"\nupstreams", "\nconcurrency: 2k\nupstreams", "concurrency: 1024 → 2000 (takes a restart)\n"},
		"where a secret is":      {"{env: KEY}", "{env: TOKEN}", "upstreams.api.api_key: env KEY → env TOKEN\n3 tenants changed: acme, gone, hr\n  upstreams.api.api_key: env KEY → env TOKEN\n"},
		"a limit of time":        {"\nupstreams", "\ntimeouts: {idle: 9s, client_write: 9s}\nupstreams", "timeouts.idle: 5m0s → 9s\ntimeouts.client_write: 1m0s → 9s (takes a restart)\n"},
		"tokens":                 {"\ntenants", "\nadmin: {token: {env: TOKEN}}\ntenants", "admin.token: not set → env TOKEN\n"},
		"tokens elsewhere":       {"\ntenants", "\nadmin: {listen: 127.0.0.1:9, token: {env: TOKEN}}\ntenants", "admin.listen: 127.0.0.1:8081 → 127.0.0.1:9 (takes a restart)\nadmin.token: not set → env TOKEN (takes a restart)\n"},
		"an issuer":              {"\ntenants", "\nidentity: {jwt: {corp: {issuer: i, audience: a, jwks_url: https://id.test/jwks}}}\ntenants", "identity.jwt.corp.issuer: not set → i\nidentity.jwt.corp.audience: not set → a\nidentity.jwt.corp.jwks_url: not set → https://id.test/jwks\n"},
		"unknown callers":        {"\ntenants", "\nidentity: {unknown: acme}\ntenants", "identity.unknown: not set → acme\ntenant changed: acme\n  identity.unknown: not set → acme\n"},
		"a port of its own": {"\ntenants", "\nlisten: [127.0.0.1:8080, {address: 127.0.0.1:9, tenant: hr}]\ntenants", "listen: 127.0.0.1:8080 → [127.0.0.1:8080, {address: \"127.0.0.1:9\", tenant: hr}] (takes a restart)\n" +
			"tenant changed: hr\n  listen: not set → {address: \"127.0.0.1:9\", tenant: hr} (takes a restart)\n"},
		"a port of nobody": {"\ntenants", "\nlisten: [127.0.0.1:8080, 127.0.0.1:9]\ntenants", "listen: 127.0.0.1:8080 → [127.0.0.1:8080, 127.0.0.1:9] (takes a restart)\n"},
	} {
		next := strings.Replace(before, c.replace, c.by, 1)
		got := config.CompareConfigs(loadDiff(t, before, "sk-canary"), loadDiff(t, next, "sk-canary"))
		if got.String() != c.want {
			t.Errorf("%s:\ngot\n%swant\n%s", name, got, c.want)
		}
		if back := config.CompareConfigs(loadDiff(t, next, "sk-canary"), loadDiff(t, before, "sk-canary")); len(back.Tenants) != len(got.Tenants) || len(back.Keys) != len(got.Keys) || back.Empty() != got.Empty() {
			t.Errorf("%s: the other way round it is\n%s", name, back)
		}
	}
}

// A port that passes from one tenant to another affects both.
func TestComparePortChangesHands(t *testing.T) {
	port := func(tenant string) string {
		return strings.Replace(before, "\ntenants", "\nlisten: {address: 127.0.0.1:9, tenant: "+tenant+"}\ntenants", 1)
	}
	got := config.CompareConfigs(loadDiff(t, port("acme"), "sk-canary"), loadDiff(t, port("hr"), "sk-canary"))
	want := "tenant changed: acme\n  listen: {address: \"127.0.0.1:9\", tenant: acme} → not set (takes a restart)\n" +
		"tenant changed: hr\n  listen: not set → {address: \"127.0.0.1:9\", tenant: hr} (takes a restart)\n"
	if _, tenants, _ := strings.Cut(got.String(), "\n"); tenants != want {
		t.Errorf("got\n%swant\n%s", tenants, want)
	}
}

// A shared setting affects the tenants that use it: an issuer those whom its tokens name, trusted
// peers all, prices and the ledger those with limits that depend on them.
func TestCompareShared(t *testing.T) {
	const text = `
upstream: https://u.test
identity:
  jwt: {corp: {issuer: i, audience: old, jwks_url: https://id.test/jwks}, other: {issuer: o, audience: a, jwks_url: https://id.test/jwks}}
  header: {trusted: [10.0.0.1]}
prices: [{match: m, input: 1, output: 2}]
budgets: {on_rollback: correct}
policies: {default: {mode: "off"}, money: {limits: {usd_per_day: 5}}, tokens: {limits: {tokens_per_day: 5k}}}
tenants:
  free: {jwt: {corp: {group: free}}}
  paid: {jwt: {other: {group: paid}}, policy: money}
  some: {jwt: {other: {group: some}}, policy: tokens}
`
	for key, c := range map[string]struct {
		replace, by string
		touched     []string
	}{
		"identity.jwt.corp.audience": {"audience: old", "audience: new", []string{"free"}},
		"identity.header.trusted":    {"10.0.0.1", "10.0.0.2", []string{"free", "paid", "some"}},
		"prices.m.output":            {"output: 2", "output: 3", []string{"paid"}},
		"budgets.on_rollback":        {"correct", "refuse", []string{"paid", "some"}},
	} {
		changes := config.CompareConfigs(loadDiff(t, text, ""), loadDiff(t, strings.Replace(text, c.replace, c.by, 1), ""))
		var touched []string
		for _, tenant := range changes.Tenants {
			touched = append(touched, string(tenant.Name))
			if len(tenant.Changes) != 1 || tenant.Changes[0].Key != key {
				t.Errorf("%s: %s: %+v", key, tenant.Name, tenant.Changes)
			}
		}
		if !slices.Equal(touched, c.touched) || len(changes.Keys) != 1 || changes.Keys[0].Key != key {
			t.Errorf("%s: touches %q, want %q:\n%s", key, touched, c.touched, changes)
		}
	}
}

// A changed secret is a change, but its text is never shown. (T28)
func TestT28CompareShowsNoSecret(t *testing.T) {
	const text = "upstream: {base_url: https://u.test, api_key: {env: KEY}}\nadmin: {token: {env: TOKEN}}\nredis: {url: {env: REDIS}}\n"
	changes := config.CompareConfigs(loadDiff(t, text, "sk-canary-1"), loadDiff(t, text, "sk-canary-2"))
	want := "upstream.api_key: env KEY, and what is read there has changed\nredis.url: env REDIS, and what is read there has changed (takes a restart)\n" +
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

// For long values, the part that differs is shown.
func TestLongValues(t *testing.T) {
	same := strings.Repeat("ü ", 100)
	for _, c := range []struct{ old, now, want string }{
		{same + "one" + same, same + "two", "k: … " + strings.Repeat("ü ", 13) + "one" + strings.Repeat("ü ", 25) + "ü… → … " + strings.Repeat("ü ", 13) + "two"},
		{"a" + same, "b", "k: a" + strings.Repeat("ü ", 39) + "ü… → b"},
		{"one", "two", "k: one → two"},
		{same, "", "k: " + strings.Repeat("ü ", 40) + "… → not set"},
	} {
		if got := (config.Change{Key: "k", Old: c.old, New: c.now}).String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// The JSON is for scripts: lists are never null, and false flags are omitted.
func TestCompareJSON(t *testing.T) {
	text := func(c config.Changes) string {
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	same := loadDiff(t, before, "k")
	if got := text(config.CompareConfigs(same, same)); got != `{"tenants":[],"keys":[]}` {
		t.Errorf("got %s", got)
	}
	next := loadDiff(t, strings.Replace(before, "\nupstreams", "\nlisten: 127.0.0.1:9\nupstreams", 1), "k")
	if d := cmp.Diff(`{"tenants":[],"keys":[{"key":"listen","old":"127.0.0.1:8080","new":"127.0.0.1:9","restart":true}]}`, text(config.CompareConfigs(same, next))); d != "" {
		t.Error(d)
	}
}

// A change of any key of a configuration is reported with that key.
func TestCompareSeesEachKey(t *testing.T) {
	same := loadDiff(t, before, "k")
	for _, f := range strictyaml.Fields(reflect.TypeFor[config.Config]()) {
		if f.Key == "policies" || f.Key == "tenants" {
			continue // compared by tenant
		}
		next := *same
		set(reflect.ValueOf(&next).Elem().FieldByIndex(f.Index))
		changes := config.CompareConfigs(same, &next)
		if len(changes.Keys) == 0 || !strings.HasPrefix(changes.Keys[0].Key, f.Key) {
			t.Errorf("%s: changed, and told as %v", f.Key, changes)
		}
	}
}

// set gives v, or something in it, another value.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if file, ok := v.Addr().Interface().(*config.File); ok {
			file.Path = "changed"
			return
		}
		for _, f := range strictyaml.Fields(v.Type()) {
			if k := v.FieldByIndex(f.Index).Kind(); k != reflect.Struct || len(strictyaml.Fields(f.Type)) > 0 {
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

// A running process applies exactly the changes that the comparison marks as needing no restart.
func TestRunning(t *testing.T) {
	old := loadDiff(t, before, "k")
	next := loadDiff(t, "listen: 127.0.0.1:9\nadmin: {token: {env: TOKEN}}\nexplain: {keep: 5}\ncache: {memory: 2MiB}\nredis: {url: {env: REDIS}}\nstate: elsewhere\n"+
		"concurrency: 7\nconnections: 70\ntimeouts: {connect: 1s, first_byte: 1s, idle: 1s, client_write: 1s}\nshutdown_grace: 3s\nshutdown_delay: 1s\nready: knowledge\n"+
		"telemetry: {listen: 127.0.0.1:10, log: {format: json}}\nidentity: {hosts: [a.test]}\nmodels: [{match: m, window: 9}]\n"+
		strings.NewReplacer("./docs", "{path: ./docs2, relevance_threshold: 0.7, description: Rules}", "top_k: 6", "top_k: 7", "u.test", "v.test").Replace(before), "k")
	running := config.Running(old, next)
	waits := config.CompareConfigs(running, next)
	if len(waits.Tenants) > 0 && waits.Tenants[0].Changes[0].Key != "knowledge.docs.path" {
		t.Errorf("tenants wait for a restart: %+v", waits.Tenants)
	}
	var taken, left []string
	for _, c := range waits.Keys {
		if left = append(left, c.Key); !c.Restart {
			t.Errorf("%s is not taken over", c)
		}
	}
	for _, c := range config.CompareConfigs(old, running).Keys {
		if taken = append(taken, c.Key); c.Restart {
			t.Errorf("%s is taken over", c)
		}
	}
	all := config.CompareConfigs(old, next).Keys
	if len(taken)+len(left) != len(all) || len(left) < 10 || len(taken) < 10 {
		t.Errorf("taken over %v, left %v, of %v", taken, left, all)
	}
	if p, _ := running.Tenant("acme"); p.Rewrite.Search.TopK != 7 {
		t.Errorf("%+v", p.Rewrite.Search)
	}
	if config.Running(next, next).Admin.Token != next.Admin.Token {
		t.Error("a configuration does not take itself over")
	}
}

// Each scalar type of the schema can be formatted, so that its changes are noticed.
func TestEachValueIsCompared(t *testing.T) {
	shows := []reflect.Type{reflect.TypeFor[strictyaml.ShownKey](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[yaml.InterfaceMarshaler]()}
	values := 0
	var walk func(key string, typ reflect.Type)
	walk = func(key string, typ reflect.Type) {
		switch {
		case slices.ContainsFunc(shows, typ.Implements):
			values++
		case typ.Kind() == reflect.Map || typ.Kind() == reflect.Slice:
			walk(key+".*", typ.Elem())
		case typ.Kind() == reflect.Struct:
			fields := strictyaml.Fields(typ)
			if len(fields) == 0 {
				t.Errorf("%s: a %s shows nothing", key, typ)
			}
			for _, f := range fields {
				walk(strictyaml.Join(key, f.Key), f.Type)
			}
		}
	}
	walk("", reflect.TypeFor[config.Config]())
	if values < 10 {
		t.Errorf("%d values", values)
	}
}
