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
	dir := files(t, map[string]string{
		"words.txt": "zebra, stripes\n", "wrong.txt": "zebra, stripes\nlion,\n", "large.txt": strings.Repeat("#", config.MaxFile+1),
	})
	load := func(synonyms string) (*config.Config, []string, error) {
		var read []string
		file := filepath.Join(dir, "sidenote.yaml")
		text := "upstreams:\n  u: {base_url: https://api.example.org/v1}\npolicies:\n  default:\n    upstream: u\n    retrieval: {synonyms: " + synonyms + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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

// A base's synonyms join those of a policy that searches it.
func TestSynonymsOfABase(t *testing.T) {
	dir := files(t, map[string]string{"zoo.txt": "zebra, stripes\n", "policy.txt": "lion, mane\nzebra, horse\n"})
	digests := map[string]bool{}
	for policy, want := range map[string][2]int{
		"knowledge: [docs], retrieval: {synonyms: policy.txt}":      {1, 1},
		"knowledge: [zoo, docs], retrieval: {synonyms: policy.txt}": {2, 1},
		"knowledge: [zoo], retrieval: {synonyms: off}":              {1, 0},
	} {
		file := filepath.Join(dir, "sidenote.yaml")
		text := "upstreams: {u: {base_url: https://api.example.org/v1}}\n" +
			"knowledge: {zoo: {path: ., synonyms: zoo.txt}, docs: {path: .}}\npolicies: {default: {upstream: u, " + policy + "}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Source{Path: file, Offline: true})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("default")
		s := p.Rewrite.Search.Synonyms
		alternatives := func(word string) (n int) {
			for _, rule := range s.Rules[word] {
				n += len(rule.Alternatives)
			}
			return n
		}
		if got := [2]int{alternatives("zebra"), alternatives("lion")}; got != want {
			t.Errorf("%s: %d synonyms of zebra and %d of lion, want %d", policy, got[0], got[1], want)
		}
		digests[s.ID()] = true
	}
	if len(digests) != 3 {
		t.Errorf("%d digests of three lists", len(digests))
	}
}
