package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
)

// jointly makes a, c and d of e joint.
func (e engines) jointly() *retrieval.Pipeline {
	p := e.pipeline()
	p.Joint = func(id string) string { return map[string]string{"a": "one", "c": "one", "d": "one"}[id] }
	return p
}

// Joint bases are searched by one call, the others separately, and Result.Bases is in the order of
// the query, as caches compare it.
func TestPipelineAsksJointBasesTogether(t *testing.T) {
	asked := make(chan string, 4)
	answers := func(sources ...retrieval.Source) retrieval.Func {
		return func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			asked <- fmt.Sprint(q.Bases)
			return retrieval.Result{Sources: sources, Bases: q.Bases, Floor: 2}, nil
		}
	}
	source := func(knowledge, doc string, score float64) retrieval.Source {
		s := chunk(doc, 0, score, doc)
		s.Knowledge = knowledge
		return s
	}
	// Each call returns at most 2 candidates.
	all := answers(source("c", "x.md", 9), source("a", "y.md", 8), source("d", "z.md", 7))
	q := asking("a", "b", "c", "d")
	q.Settings.TopK, q.Settings.NumCandidates = 2, 2
	res, err := engines{"a": all, "b": answers(source("b", "w.md", 3)), "c": all, "d": all}.jointly().Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{<-asked, <-asked}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"[{a ga} {c gc} {d gd}]", "[{b gb}]"}, got); diff != "" || len(asked) > 0 {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(q.Bases, res.Bases); diff != "" {
		t.Errorf("searched (-want +got):\n%s", diff)
	}
	want := "in  c/x.md#0\nin  a/y.md#0\nout b/w.md#0 top_k: after the best 2\n3 retrieved, 3 unique"
	if diff := cmp.Diff(want, outcome(res)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// If the answer of joint bases is incomplete, so is the whole answer; a source of a base that was
// not asked is an error; a provisional floor is reported.
func TestPipelineOfJointBases(t *testing.T) {
	good := func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		s := chunk("x.md", 0, 9, "x")
		s.Knowledge = "c"
		return retrieval.Result{Sources: []retrieval.Source{s}, Bases: q.Bases, Floor: 1}, nil
	}
	part := func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		res, err := good(ctx, q)
		res.Bases, res.Partial, res.Reason = q.Bases[1:], true, retrieval.ReasonError
		return res, err
	}
	estimated := func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		res, err := good(ctx, q)
		res.Provisional = true
		return res, err
	}
	stranger := func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		res, err := good(ctx, q)
		res.Sources[0].Knowledge = "d" // joint, too, but not asked
		return res, err
	}
	for name, c := range map[string]struct {
		joint retrieval.Func
		want  string // sources, bases, reason, partial, provisional
	}{
		"whole":     {good, "2 3  false false"},
		"in part":   {part, "2 2 retrieval-error true false"},
		"estimated": {estimated, "2 3  false true"},
		"stranger":  {stranger, "1 1 retrieval-error true false"},
		"down":      {failing(errors.New("connection refused")), "1 1 retrieval-error true false"},
		"panics":    {panicking, "1 1 retrieval-error true false"},
	} {
		res, err := engines{"a": c.joint, "b": has(1, chunk("b.md", 0, 5, "b")), "c": c.joint}.jointly().Retrieve(t.Context(), asking("a", "b", "c"))
		got := fmt.Sprintf("%d %d %s %v %v", len(res.Sources), len(res.Bases), res.Reason, res.Partial, res.Provisional)
		if got != c.want || err != nil {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
		}
	}
}

// Each group of joint bases is searched by a call of its own.
func TestPipelineAsksEachGroup(t *testing.T) {
	asked := make(chan string, 4)
	all := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		asked <- fmt.Sprint(q.Bases)
		return retrieval.Result{Bases: q.Bases, Floor: 2}, nil
	})
	p := engines{"a": all, "b": all, "c": all, "d": all, "e": all}.pipeline()
	p.Joint = func(id string) string { return map[string]string{"a": "one", "b": "two", "c": "one", "d": "two"}[id] }
	res, err := p.Retrieve(t.Context(), asking("a", "b", "c", "d", "e"))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{<-asked, <-asked, <-asked}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"[{a ga} {c gc}]", "[{b gb} {d gd}]", "[{e ge}]"}, got); diff != "" || len(asked) > 0 {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(res.Bases); got != "[{a ga} {b gb} {c gc} {d gd} {e ge}]" {
		t.Errorf("searched %s", got)
	}
}
