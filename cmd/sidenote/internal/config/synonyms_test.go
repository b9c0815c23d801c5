package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A policy's synonyms come from its file, the built-in list or nowhere; mistakes name file, line
// and column.
func TestSynonyms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("words.txt", "zebra, stripes\n")
	write("wrong.txt", "zebra, stripes\nlion,\n")
	write("large.txt", strings.Repeat("#", config.MaxFile+1))
	load := func(synonyms string) (*config.Config, []string, error) {
		var read []string
		file := write("sidenote.yaml", "upstreams:\n  u: {base_url: https://api.example.org/v1}\npolicies:\n  default:\n    upstream: u\n    retrieval: {synonyms: "+synonyms+"}\n")
		c, err := config.Load(config.Source{Path: file, Offline: true, OnRead: func(path string) { read = append(read, filepath.Base(path)) }})
		return c, read, err
	}
	for value, want := range map[string]string{"words.txt": "zebra", "default": "refund", "off": ""} {
		c, read, err := load(value)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("default")
		s := p.Rewrite.Search.Synonyms
		if (s != nil) != (want != "") || s != nil && len(s.Rules[want]) != 1 {
			t.Errorf("%s: %v, want a rule for %q", value, s, want)
		}
		if value == "words.txt" && !strings.Contains(strings.Join(read, " "), value) {
			t.Errorf("%q were read, want words.txt too, so that its changes are seen", read)
		}
	}
	for value, want := range map[string]string{
		"wrong.txt":   "wrong.txt:2:6: policies.default.retrieval.synonyms: a word is missing",
		"missing.txt": "missing.txt\" not found",
		"large.txt":   "larger than 16 MiB",
		`""`:          "is not a file; write its path, or default, or off",
	} {
		if _, _, err := load(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}
