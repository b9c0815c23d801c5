package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// Sources of a base in the state folder have token counts in the encodings of current models and
// in no others, also in a process that only reads the folder.
func TestSourcesAreCounted(t *testing.T) {
	open := keptBase(t)
	check := func(e *Engine, what string) {
		t.Helper()
		for encoding, stored := range map[string]bool{"o200k_base": true, "cl100k_base": true, "p50k_base": false} {
			counter, err := e.Reader.encodings.Encoding(encoding)
			if err != nil {
				t.Fatal(err)
			}
			base, _ := e.catalogue.base("handbook")
			res, err := retrieval.WithTexts{Next: base}.Retrieve(t.Context(), retrieval.Query{Text: "parental leave", Encoding: encoding, Settings: retrieval.DefaultSettings()})
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

// A request gets its sources with the token counts stored for the encoding of its model, both from
// the engine and from the cache; in another encoding there are none.
func TestStoredCountsReachTheRequest(t *testing.T) {
	s := keptBase(t)("")
	policy, _ := s.Config.Tenant("default")
	for _, c := range []struct {
		model  string
		stored bool
		cache  retrieval.CacheState
	}{
		{"gpt-4o", true, retrieval.CacheMiss}, {"gpt-4", true, retrieval.CacheMiss}, {"gpt-4o", true, retrieval.CacheHit},
		{"text-davinci-003", false, retrieval.CacheMiss},
	} {
		req, err := chat.Completions.Parse(fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"How many weeks of parental leave?"}]}`, c.model))
		if err != nil {
			t.Fatal(err)
		}
		var res rewrite.Result
		s.Rewriter.Rewrite(t.Context(), &policy.Rewrite, req, &rewrite.Options{}, &res)
		if len(res.Retrieval.Sources) == 0 || res.Retrieval.Cache != c.cache {
			t.Fatalf("%s: %d sources, cache=%s, %s %s", c.model, len(res.Retrieval.Sources), res.Retrieval.Cache, res.Outcome, res.Reason)
		}
		for _, source := range res.Retrieval.Sources {
			want := 0
			if c.stored {
				want, _ = res.Model.Counter.Count(source.Text)
			}
			if source.Tokens != want {
				t.Errorf("%s, cache=%s: %d tokens, want %d", c.model, c.cache, source.Tokens, want)
			}
		}
	}
}

// keptBase makes a base in a state folder. The function that it returns opens the folder, with
// more added to the configuration.
func keptBase(t *testing.T) func(more string) *Engine {
	state, docs := t.TempDir(), t.TempDir()
	text := "# Leave policy\n\n## Parental leave\n\nEvery parent may take 16 weeks of parental leave on full pay.\n"
	if err := os.WriteFile(filepath.Join(docs, "leave.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nstate: {path: %q%%s}\nknowledge: {handbook: %q}\n", state, docs)
	return func(more string) *Engine {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, yaml, more), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(t.Context(), cfg, Options{Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Bases.Index(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return s
	}
}
