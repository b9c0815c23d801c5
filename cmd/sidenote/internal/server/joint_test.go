package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// Several bases find what a single base with all their documents finds, with the same scores, from
// the engine and from the caches, and also after a document has changed. Their floor is their own:
// words that only other bases have do not raise it. The order may differ, as it also counts what else
// was found in the base of a text.
func TestManyBasesRankAsOne(t *testing.T) {
	root := t.TempDir()
	n := 0
	for id, text := range knowledgetest.Handbook() {
		write(t, filepath.Join(root, fmt.Sprintf("b%d", n%3), id), text)
		n++
	}
	yaml := fmt.Sprintf(`
upstream: http://127.0.0.1:9
state: {path: %q}
knowledge: {b0: %q, b1: %q, b2: %q, all: %q}
policies: {default: {knowledge: [b2, b0, b1], retrieval: {deadline: 10s}}}
`, t.TempDir(), filepath.Join(root, "b0"), filepath.Join(root, "b1"), filepath.Join(root, "b2"), root)
	e, cfg := engineOf(t, yaml)
	ask := func(question string, state retrieval.CacheState, ids ...string) retrieval.Result {
		t.Helper()
		tenant, _ := cfg.Tenant("default")
		q := retrieval.Query{Tenant: "default", Text: question, Settings: tenant.Rewrite.Search}
		for _, id := range ids {
			q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
		}
		res, err := e.Rewriter.Retriever.Retrieve(t.Context(), q)
		if err != nil || res.Cache != state || res.Partial || len(res.Sources) == 0 || len(res.Bases) != len(ids) {
			t.Fatalf("%q: %+v, %v", question, res, err)
		}
		return res
	}
	for i := range 2 {
		if err := e.Bases.Index(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		e.Bases.AwaitFloor(t.Context(), []string{"b2", "b0", "b1"}) // otherwise a busy machine may use an estimate
		for _, question := range []string{"parental leave", "who pays for the gym and the pension", "devices at the help desk"} {
			want := ask(question, retrieval.CacheMiss, "all")
			for _, state := range []retrieval.CacheState{retrieval.CacheMiss, retrieval.CacheHit} {
				got := ask(question, state, "b2", "b0", "b1")
				asOne(&got)
				ignore := cmp.Options{cmpopts.IgnoreFields(retrieval.Result{}, "Took", "Bases", "Cache", "CacheKey", "Floor", "Sources", "Excluded")}
				found := cmp.Diff(scoresOf(&want), scoresOf(&got), cmpopts.EquateApprox(0, 1e-6))
				if diff := cmp.Diff(want, got, ignore) + found; diff != "" {
					t.Errorf("%q, round %d, cache %s (-one +several):\n%s", question, i, state, diff)
				}
			}
		}
		write(t, filepath.Join(root, "b1", "new.md"), "# Leave for parents\n\nParental leave is paid. The gym, the desk and devices are not.\n")
	}
}

// scoresOf returns the scores of all that was found, added or not.
func scoresOf(res *retrieval.Result) map[string]float64 {
	scores := map[string]float64{}
	for i := range res.Sources {
		scores[fmt.Sprint(res.Sources[i].Doc, "#", res.Sources[i].Chunk)] = res.Sources[i].Score
	}
	for _, e := range res.Excluded.List() {
		scores[fmt.Sprint(e.Doc, "#", e.Chunk)] = e.Score
	}
	return scores
}

// engineOf returns the engine of a configuration that keeps its state.
func engineOf(t *testing.T, yaml string) (*Engine, *config.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	write(t, path, yaml)
	cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), cfg, Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, cfg
}

// A base that takes long to read does not delay another, neither at the start nor when a file
// changes later.
func TestASlowBaseHoldsUpNoOther(t *testing.T) {
	root := t.TempDir()
	for _, id := range []string{"a", "b"} {
		write(t, filepath.Join(root, id, "leave.md"), "# Leave\n\nParental leave is paid.\n")
	}
	e, _ := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\nstate: {path: %q}\nknowledge: {a: %q, b: %q}\n",
		t.TempDir(), filepath.Join(root, "a"), filepath.Join(root, "b")))
	slow, quick := e.Bases.made.Load().indexers["a"], e.Bases.made.Load().indexers["b"]
	slow.reading.Lock() // as a run does while it reads the folder
	ended := make(chan error, 1)
	go func() { ended <- e.Bases.Index(t.Context(), nil) }()
	has := func(documents int) {
		t.Helper()
		for begin := time.Now(); !quick.status().whole || quick.status().report.Files < documents; {
			if time.Since(begin) > time.Minute {
				t.Fatalf("held up: %+v", quick.status())
			}
			runtime.Gosched()
		}
	}
	has(1)
	write(t, filepath.Join(root, "b", "pension.md"), "# Pension\n\nThe firm pays a half.\n")
	quick.ask(false)
	has(2)
	if slow.status().whole {
		t.Error("the slow base is read")
	}
	slow.reading.Unlock()
	if err := <-ended; err != nil || !slow.status().whole {
		t.Errorf("%v; %+v", err, slow.status())
	}
}

// asOne renames sources as if they were of a single base.
func asOne(res *retrieval.Result) {
	rename := func(s retrieval.Source) retrieval.Source {
		s.Doc, s.Knowledge = s.Knowledge+"/"+s.Doc, "all"
		return s
	}
	for i := range res.Sources {
		res.Sources[i] = rename(res.Sources[i])
	}
	excluded := res.Excluded.List()
	for i := range excluded {
		x := &excluded[i]
		x.Doc, x.Knowledge = x.Knowledge+"/"+x.Doc, "all"
	}
	res.Excluded = retrieval.NewExcludedList(excluded)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
