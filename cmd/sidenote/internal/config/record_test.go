package config_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/record"
)

// Nothing is recorded unless a policy says so; what it does not say has a default.
func TestRecordDefaults(t *testing.T) {
	if all := config.Records(load(t, "upstream: https://u.test\n")); len(all) != 0 {
		t.Errorf("records %v", all)
	}
	c := load(t, "upstream: https://u.test\nstate: /s\npolicies: {default: {record: {key: {env: RECORD}}}}\n")
	got := config.Records(c)["default"]
	keys := got.Keys
	got.Keys = nil
	want := record.Settings{Share: 0.1, Keep: 7 * 24 * time.Hour, Max: 1 << 30, Redact: record.Redactor{Emails: true, Numbers: true}}
	if !reflect.DeepEqual(got, want) || keys.String() != "one" {
		t.Errorf("%+v, keys %s", got, keys)
	}
	if dir := c.RecordsFolder(); dir != filepath.Join("/s", "records") {
		t.Error(dir)
	}
}

// A policy inherits what is recorded, with the key file beside the configuration that names it, and can
// change or stop it.
func TestRecordIsInherited(t *testing.T) {
	d := disk{"etc/c.yaml": `
upstream: https://u.test
policies:
  default: {mode: shadow}
  base:
    record: {share: 25%, bodies: requests, keep: 12h, max: 64MiB, key: {file: keys}, redact: [none], patterns: ['X[0-9]+']}
  same: {extends: base}
  more: {extends: same, record: {share: 100%, redact: [emails], keep: 30d}}
  other: {extends: base, record: {key: {env: RECORD}}}
  none: {extends: base, record: off}
`, "etc/keys": "two AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n" + recordKey}
	c, err := config.Load(d.source("etc/c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := config.Records(c)
	same, more, other := all["same"], all["more"], all["other"]
	if len(all) != 4 || same.Share != 0.25 || !same.Requests || same.Keep != 12*time.Hour || same.Max != 64<<20 || same.Keys.String() != "two,one" ||
		same.Redact.Emails || same.Redact.Numbers || len(same.Redact.Patterns) != 1 {
		t.Errorf("%d: %+v", len(all), same)
	}
	if more.Share != 1 || more.Keep != 30*24*time.Hour || more.Max != 64<<20 || !more.Redact.Emails || more.Redact.Numbers || !more.Keys.Equal(same.Keys) {
		t.Errorf("%+v", more)
	}
	if other.Keys.String() != "one" || len(config.RecordKeys(c)) != 4 {
		t.Errorf("%s", other.Keys)
	}
}

// The settings that check prints have the key's place and not the key.
func TestRecordKeyIsNotShown(t *testing.T) {
	c := load(t, "upstream: https://u.test\npolicies: {default: {record: {keep: 36h, key: {env: RECORD}}}}\n")
	text := config.OriginYAML(config.PolicyOrigins(c, "default"))
	if !strings.Contains(text, "env RECORD") && !strings.Contains(text, "env: RECORD") || strings.Contains(text, "AAECAwQ") || !strings.Contains(text, "keep: 36h") {
		t.Error(text)
	}
}

// An included file may not write to the state folder.
func TestIncludedFileMayNotRecord(t *testing.T) {
	for may, refused := range map[string]bool{"secrets": true, "all": false} {
		d := disk{"etc/c.yaml": "upstream: https://u.test\ninclude: [{path: team/*.yaml, may: [" + may + "]}]\n", "etc/team/a.yaml": "policies: {a: {record: {key: {env: RECORD}}}}\ntenants: {t: {policy: a, keys: [{sha256: " + digest + "}]}}\n"}
		_, err := config.Load(d.source("etc/c.yaml"))
		const want = "policies.a.record: writes to the state folder; etc/c.yaml:2:11 can allow it, as in {path: team/*.yaml, may: [all]}"
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", may, err)
		}
	}
}

// A change of the key's content is a change, and none needs a restart.
func TestRecordChanges(t *testing.T) {
	const text = "upstream: https://u.test\npolicies: {default: {record: {key: {file: keys}}}}\n"
	of := func(text, key string) *config.Config {
		c, err := config.Load(disk{"c.yaml": text, "keys": key}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	changes := config.CompareConfigs(of(text, recordKey), of(strings.Replace(text, "record: {", "record: {keep: 8d, ", 1), "two"+recordKey[len("one"):]))
	var keys []string
	for _, tenant := range changes.Tenants {
		for _, c := range tenant.Changes {
			keys = append(keys, c.Key)
			if c.Restart {
				t.Errorf("%+v", c)
			}
		}
	}
	if !slices.Equal(keys, []string{"record.keep", "record.key"}) {
		t.Error(keys)
	}
}
