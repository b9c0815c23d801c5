package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
)

// A pickyServer evaluates no filter.
type pickyServer struct{ enginetest.Memory }

var errPicky = errors.New("no such column")

func (*pickyServer) States(_ context.Context, bases []string) ([]engine.State, error) {
	states := make([]engine.State, len(bases))
	for i, base := range bases {
		states[i] = engine.State{Base: base, Generation: "aa", Documents: 1, Chunks: 1}
	}
	return states, nil
}

func (*pickyServer) Search(_ context.Context, s *engine.Search) (*engine.Found, error) {
	if s.Filter != nil {
		return nil, errPicky
	}
	return &engine.Found{States: []engine.State{{Base: "a", Generation: "aa"}}, Counts: [][]engine.TermCount{make([]engine.TermCount, len(s.Terms))}}, nil
}

func (*pickyServer) Filterable(_ string, f *filter.Filter) error {
	if f != nil {
		return errPicky
	}
	return nil
}

// Requests with filters that an engine cannot evaluate fail alone: the engine is neither in trouble
// nor skipped.
func TestUnsupportedFiltersFailAlone(t *testing.T) {
	e := engine.Open(engine.Options{Server: new(pickyServer), Name: "test", Bases: []string{"a"}, Version: "test", Neutralise: func(_, text string) string { return text }})
	defer func() { _ = e.Close() }()
	if err := e.Base("a").Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := retrieval.Query{Text: "leave", Bases: []retrieval.Ref{e.Base("a").Ref()}, Settings: retrieval.DefaultSettings()}
	filtered := q
	filtered.Filter = &filter.Filter{Type: filter.Eq, Key: "team", Value: "hr"}
	for range 20 {
		if _, err := e.Retrieve(t.Context(), filtered); !errors.Is(err, errPicky) {
			t.Fatalf("got %v, want %v", err, errPicky)
		}
		if _, err := e.Passage(t.Context(), filtered, retrieval.Passage{Knowledge: "a", Doc: "x", End: 1}); !errors.Is(err, errPicky) {
			t.Fatalf("passage: got %v, want %v", err, errPicky)
		}
	}
	if trouble := strings.Join(e.Trouble(), "; "); trouble != "" || e.Skips() {
		t.Errorf("trouble %q, skipped %v", trouble, e.Skips())
	}
	if _, err := e.Retrieve(t.Context(), q); err != nil {
		t.Error(err)
	}
}

// The Server in memory passes the tests of all Servers, so that they test the Engine and the Writer.
func TestContract(t *testing.T) {
	servers := map[string]*enginetest.Memory{}
	enginetest.Run(t, func(_ *testing.T, prefix string) engine.Server {
		if servers[prefix] == nil {
			servers[prefix] = new(enginetest.Memory)
		}
		return servers[prefix]
	})
}

// Candidates with the statistics of the whole base are ranked as by an embedded base.
func TestRankingAsEmbedded(t *testing.T) {
	for name, step := range map[string]int{"scifact": 20, "cranfield": 4} {
		t.Run(name, func(t *testing.T) {
			server := new(enginetest.Memory)
			enginetest.Ranking(t, func(*testing.T, string) engine.Server { return server }, "../../../shared/ir/"+name, name, step, .005)
		})
	}
}
