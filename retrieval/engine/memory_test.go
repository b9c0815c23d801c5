package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
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

// A partServer cannot read the base bad.
type partServer struct {
	enginetest.Memory
	searched atomic.Int32
}

func (s *partServer) States(ctx context.Context, bases []string) ([]engine.State, error) {
	states, err := s.Memory.States(ctx, bases)
	for i := range states {
		if states[i].Base == "bad" {
			states[i].Trouble = "table bad does not exist"
		}
	}
	return states, err
}

func (s *partServer) Search(ctx context.Context, q *engine.Search) (*engine.Found, error) {
	s.searched.Add(1)
	return s.Memory.Search(ctx, q)
}

// A base in trouble fails alone: the Server is not asked, and its other bases have no trouble.
func TestBaseInTroubleFailsAlone(t *testing.T) {
	var told []string
	s := new(partServer)
	e := engine.Open(engine.Options{
		Server: s, Name: "test", Bases: []string{"good", "bad"}, Neutralise: func(_, text string) string { return text },
		Changed: func(line string, _ bool) { told = append(told, line) },
	})
	<-e.Base("bad").FirstRead()
	for range 10 {
		_, err := e.Base("bad").Retrieve(t.Context(), retrieval.Query{Text: "leave", Settings: retrieval.DefaultSettings()})
		if err == nil || !strings.Contains(err.Error(), "table bad does not exist") {
			t.Errorf("got %v", err)
		}
	}
	good, bad, answers := e.Base("good").Trouble(), e.Base("bad").Trouble(), e.Base("good").Answers() && e.Base("good").Answered() && !e.Base("bad").Answers() && !e.Base("bad").Answered()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"knowledge engine test: table bad does not exist"}
	if s.searched.Load() != 0 || len(good) != 0 || !slices.Equal(bad, want) || !answers || !slices.Equal(told, want) {
		t.Errorf("%d searches, trouble %q and %q, answers %v, told %q", s.searched.Load(), good, bad, answers, told)
	}
}

// A Server that refuses to read the bases works: searches are tried again.
func TestProbeTakesAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Bool
		m := &enginetest.Memory{Before: func(string) error {
			if answers.Load() {
				return engine.ErrDenied
			}
			return errors.New("no answer")
		}}
		e := engine.Open(engine.Options{Server: m, Name: "test", Bases: []string{"a"}, Neutralise: func(_, text string) string { return text }})
		defer func() { _ = e.Close() }()
		<-e.Base("a").FirstRead()
		for range 10 {
			_, _ = e.Base("a").Retrieve(t.Context(), retrieval.Query{Text: "leave", Settings: retrieval.DefaultSettings()})
		}
		if !e.Skips() {
			t.Fatal("searches are not skipped while there is no answer")
		}
		answers.Store(true)
		time.Sleep(10 * time.Second)
		if e.Skips() {
			t.Error("searches are skipped though the Server answers")
		}
	})
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
	steps := map[string]int{"cranfield": 4, "scifact": 20}
	if testing.Short() {
		delete(steps, "scifact")
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			server := new(enginetest.Memory)
			enginetest.Ranking(t, func(*testing.T, string) engine.Server { return server }, "../../../shared/ir/"+name, name, step, .005)
		})
	}
}

// A search that began before a change, and ends after the change was seen, does not bring the earlier
// state back.
func TestLateAnswerDoesNotBringAnEarlierStateBack(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	server := &slowServer{Memory: new(enginetest.Memory), began: began, goOn: goOn}
	b := enginetest.NewBase(t, func(*testing.T, string) engine.Server { return server }, "b", nil)
	b.Fill(t, []chunk.Document{{ID: "a", Text: "first words"}})
	first := b.Ref()
	server.slow.Store(true)
	ended := make(chan retrieval.Result)
	go func() {
		res, _ := b.Retrieve(context.Background(), retrieval.Query{Tenant: "t", Text: "words", Settings: retrieval.DefaultSettings()})
		ended <- res
	}()
	<-began
	server.slow.Store(false)
	b.Fill(t, []chunk.Document{{ID: "a", Text: "second words"}})
	second := b.Ref()
	close(goOn)
	if res := <-ended; len(res.Bases) != 1 || res.Bases[0] != first {
		t.Errorf("the late answer is of %v, want %v", res.Bases, first)
	}
	if b.Ref() != second || first == second {
		t.Errorf("%v after a late answer, want %v", b.Ref(), second)
	}
}

// A slowServer keeps the answers of searches back that begin while it is slow.
type slowServer struct {
	*enginetest.Memory
	slow  atomic.Bool
	began chan<- struct{}
	goOn  <-chan struct{}
}

func (s *slowServer) Search(ctx context.Context, q *engine.Search) (*engine.Found, error) {
	found, err := s.Memory.Search(ctx, q)
	if s.slow.Load() {
		s.began <- struct{}{}
		<-s.goOn
	}
	return found, err
}
