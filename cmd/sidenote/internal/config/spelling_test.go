package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
)

// Windows editors write a byte order mark; it is not part of a key.
func TestByteOrderMark(t *testing.T) {
	const mark = "\ufeff"
	d := disk{
		"c.yaml": mark + "upstream: {base_url: https://u.test, api_key: {file: key}}\nlisten: x\ninclude: [more.yaml]\n",
		"key":    mark + "sk-canary\r\n", "more.yaml": mark + "models: [{match: x, window: 1k}]\n",
	}
	_, err := config.Load(d.source("c.yaml"))
	if want := `c.yaml:2:9: listen: "x" is not an address; write host:port, as in 127.0.0.1:8080`; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	d["c.yaml"] = mark + "upstream: {base_url: https://u.test, api_key: {file: key}}\ninclude: [more.yaml]\n"
	c, err := config.Load(d.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if key := c.Proxy().Upstreams["default"].APIKey.Reveal(); key != "sk-canary" || len(c.Models) != 1 {
		t.Errorf("key %q, models %v", key, c.Models)
	}
	for _, utf16 := range []string{"\xff\xfeu\x00p\x00", "\xfe\xff\x00u\x00p"} {
		d["c.yaml"] = utf16
		if _, err := config.Load(d.source("c.yaml")); fmt.Sprint(err) != "c.yaml:1:1: is UTF-16; save it as UTF-8" {
			t.Errorf("%q: %v", utf16, err)
		}
	}
}

// ~ is the user's home in every path. Shells do not expand it after "=", and nothing expands it in
// a file.
func TestHome(t *testing.T) {
	home := files(t, map[string]string{
		"key": "sk-canary\n", "ca.pem": authority, "docs/a.md": "# A\n", "etc/t/a.yaml": "models: [{match: x, window: 1k}]\n",
		"etc/c.yaml": `
upstream: {base_url: https://u.test, api_key: {file: ~/key}}
redis: {url: rediss://r.test, ca: ~/ca.pem}
state: ~/state
knowledge: {docs: ~/docs, deep: {path: ~/docs/deep}, all: {path: "~"}, odd: ~docs, own: ./~}
include: ["~/etc/t/*.yaml"]
`})
	vars := env(map[string]string{"HOME": home})
	c, err := config.Load(config.Source{Path: "~/etc/c.yaml", Env: vars})
	if err != nil {
		t.Fatal(err)
	}
	etc := filepath.Join(home, "etc")
	for name, want := range map[config.Name]string{
		"docs": filepath.Join(home, "docs"), "deep": filepath.Join(home, "docs", "deep"), "all": home,
		"odd": filepath.Join(etc, "~docs"), "own": filepath.Join(etc, "~"),
	} {
		if got := c.Knowledge[name].Path; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if c.State.Path != filepath.Join(home, "state") || c.Proxy().Upstreams["default"].APIKey.Reveal() != "sk-canary" || len(c.Models) != 1 {
		t.Errorf("state %s, models %v", c.State.Path, c.Models)
	}
	flags := config.Flags{Upstream: "https://u.test", State: "~/st", Knowledge: []string{"docs=~/docs", "~/more", "up=../~"}}
	if c, err = config.Load(config.Source{Flags: flags, Env: vars}); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.State.Path, c.Knowledge["docs"].Path, c.Knowledge["more"].Path, c.Knowledge["up"].Path), fmt.Sprint(home, "/st", home, "/docs", home, "/more", "../~"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = config.Load(config.Source{Flags: flags})
	want := `--state: state.path: "~/st" begins with ~ and HOME is not set; write the whole path` + "\n" +
		`--knowledge: knowledge.docs.path: "~/docs" begins with ~ and HOME is not set; write the whole path` + "\n" +
		`--knowledge: knowledge.more.path: "~/more" begins with ~ and HOME is not set; write the whole path`
	if fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Misspelled numbers and addresses are reported clearly, at their position.
func TestSpellings(t *testing.T) {
	const up = "upstream: https://u.test\n"
	for file, want := range map[string]string{
		up + "concurrency: 2,000":                                       `c.yaml:2:14: concurrency: "2,000" is not a whole number; write 2000`,
		up + "connections: 2_000":                                       `c.yaml:2:14: connections: "2_000" is not a whole number; write 2000`,
		up + "connections: 1'000'000":                                   `c.yaml:2:14: connections: "1'000'000" is not a whole number; write 1000000`,
		up + "connections: 2 000k":                                      `c.yaml:2:14: connections: "2 000k" is not a whole number; write 2000k`,
		up + "connections: 2,00":                                        `c.yaml:2:14: connections: "2,00" is not a whole number; write it as in 2000 or 200k`,
		up + "connections: 2.000":                                       `c.yaml:2:14: connections: "2.000" is not a whole number; write it as in 2000 or 200k`,
		up + "cache: {memory: '64,000 kB'}":                             `c.yaml:2:17: cache.memory: "64,000 kB" is not a size; write 64000kB`,
		up + "shutdown_grace: 1,500ms":                                  `c.yaml:2:17: shutdown_grace: "1,500ms" is not a duration; write 1500ms`,
		up + "policies: {default: {context_tokens: 2,000, mode: off}}":  `c.yaml:2:38: policies.default.context_tokens: "2,000" has a comma, which ends a value within { }; write 2000`,
		up + "cache: {memory: 64,000,000 kB, ttl: 1m}":                  `c.yaml:2:17: cache.memory: "64,000,000 kB" has a comma, which ends a value within { }; write 64000000kB`,
		up + "policies: {default: {retrieval: {score_threshold: 2,5}}}": `c.yaml:2:51: policies.default.retrieval.score_threshold: "2,5" has a comma, which ends a value within { }; write the number without one`,
		up + "policies: {default: {retrieval: {top_k: 2, 000: 1}}}":     `c.yaml:2:44: policies.default.retrieval.000: unknown key`,

		"upstream: https://api.openai.com/v1/chat/completions":       `c.yaml:1:11: upstream.base_url: "https://api.openai.com/v1/chat/completions" ends in /chat/completions, which requests bring themselves; write https://api.openai.com/v1`,
		"upstream: https://u.test/Chat/Completions/":                 `c.yaml:1:11: upstream.base_url: "https://u.test/Chat/Completions/" ends in /chat/completions, which requests bring themselves; write https://u.test`,
		"upstream: https://u.test/v1/chat/completions?api-version=1": `c.yaml:1:11: upstream.base_url: "https://u.test/v1/chat/completions" ends in /chat/completions, which requests bring themselves; write https://u.test/v1`,
		"upstream: https://u.test/v1/responses":                      `c.yaml:1:11: upstream.base_url: "https://u.test/v1/responses" ends in /responses, which requests bring themselves; write https://u.test/v1`,
		"upstreams: {a: {base_url: https://u.test/v1/completions}}":  `c.yaml:1:27: upstreams.a.base_url: "https://u.test/v1/completions" ends in /completions, which requests bring themselves; write https://u.test/v1`,

		up + "listen: 127.0.0.1:8081":                                    `c.yaml:2:1: listen: 127.0.0.1:8081 is taken by admin.listen, which is there by default`,
		up + "listen: 127.0.0.1:9\nadmin: {listen: localhost:9}":         `c.yaml:3:9: admin.listen: localhost:9 is taken by listen, at c.yaml:2:1`,
		up + "telemetry: {listen: '127.0.0.1:8080'}":                     `c.yaml:2:13: telemetry.listen: 127.0.0.1:8080 is taken by listen`,
		up + "telemetry: {listen: '127.0.0.1:7'}\nlisten: 127.0.0.1:7\n": `c.yaml:2:13: telemetry.listen: 127.0.0.1:7 is taken by listen, at c.yaml:3:1`,
	} {
		if _, err := config.Load(disk{"c.yaml": file}.source("c.yaml")); fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", file, err, want)
		}
	}
	flags := config.Flags{Upstream: "https://u.test/v1/chat/completions", Listen: "127.0.0.1:8081"}
	_, err := config.Load(config.Source{Flags: flags})
	want := `--upstream: "https://u.test/v1/chat/completions" ends in /chat/completions, which requests bring themselves; write https://u.test/v1` + "\n" +
		`--listen: listen: 127.0.0.1:8081 is taken by admin.listen, which is there by default`
	if fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// An expired key is refused, and this is reported.
func TestExpiredKeys(t *testing.T) {
	c := load(t, `
upstream: https://u.test
tenants:
  a:
    keys:
      - {sha256: `+digest[:63]+`1, expires: 2026-01-31}
      - {sha256: `+digest[:63]+`2, expires: 2026-02-01}
      - `+digest[:63]+`3
`)
	const first = "c.yaml:6:84: tenants.a.keys[0].expires: 2026-01-31 has passed; whoever has this key is refused"
	const second = "c.yaml:7:84: tenants.a.keys[1].expires: 2026-02-01 has passed; whoever has this key is refused"
	for now, want := range map[string]string{
		"2026-01-31T23:59:59Z": "", "2026-02-01T00:00:01Z": first, "2026-02-01T23:59:59+14:00": first, "2026-02-02T00:00:01Z": first + "\n" + second,
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Expired(at).Error(); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", now, got, want)
		}
	}
}

// A folder's name may contain a comma. If it does not exist, several folders may have been meant.
func TestCommaInAFolder(t *testing.T) {
	dir := files(t, map[string]string{"a,b/c.md": "# C\n"})
	load := func(path string) error {
		c, err := config.Load(config.Source{Flags: config.Flags{Upstream: "https://u.test", Knowledge: []string{path}}})
		if err != nil {
			t.Fatal(err)
		}
		return c.CheckFolders(nil)
	}
	if err := load(filepath.Join(dir, "a,b")); err != nil {
		t.Error(err)
	}
	want := `--knowledge: knowledge.a.path: folder "/no,b=/where" not found; several folders have a --knowledge each`
	if err := load("a=/no,b=/where"); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "a,b")); err != nil {
		t.Fatal(err)
	}
}
