package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
)

// Sources of a base that is kept come with their tokens in the encodings of today's
// models, also to one that only reads the state folder, and in no others.
func TestSourcesAreCounted(t *testing.T) {
	state, docs := t.TempDir(), handbook(t)
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nstate: {path: %q%%s}\nknowledge: {handbook: %q}\n", state, docs)
	open := func(more string) *stack {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, yaml, more), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		s, err := build(t.Context(), cfg, home{keep: true}, unheard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.close() })
		if err := s.index(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return s
	}
	check := func(s *stack, what string) {
		t.Helper()
		for encoding, stored := range map[string]bool{"o200k_base": true, "cl100k_base": true, "p50k_base": false} {
			counter, err := s.encodings.Encoding(encoding)
			if err != nil {
				t.Fatal(err)
			}
			base, _ := s.bases.base("handbook")
			res, err := base.Retrieve(t.Context(), retrieval.Query{Text: "parental leave", Encoding: encoding, Settings: retrieval.DefaultSettings()})
			if err != nil || len(res.Sources) == 0 {
				t.Fatalf("%s: %+v, %v", what, res, err)
			}
			for _, source := range res.Sources {
				want := 0
				if stored {
					want, _ = counter.Count(source.Text)
				}
				if source.Tokens != want {
					t.Errorf("%s: %d tokens in %s, want %d", what, source.Tokens, encoding, want)
				}
			}
		}
	}
	check(open(""), "the one that writes")
	check(open(", follow: true"), "one that follows")
}
