package retrieval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// engines holds the bases of a pipeline under test.
type engines map[string]retrieval.Func

func (e engines) pipeline() *retrieval.Pipeline {
	return &retrieval.Pipeline{Terms: words, Bases: func(id string) retrieval.Retriever {
		if f, ok := e[id]; ok {
			return f
		}
		return nil
	}}
}

// has returns an engine that answers at once with sources, whose Knowledge it fills in.
func has(floor float64, sources ...retrieval.Source) retrieval.Func {
	return func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		list := make([]retrieval.Source, len(sources))
		for i, s := range sources {
			s.Knowledge = q.Bases[0].Knowledge
			list[i] = s
		}
		return retrieval.Result{Sources: list, Bases: q.Bases, Floor: floor}, nil
	}
}

func failing(err error) retrieval.Func {
	return func(context.Context, retrieval.Query) (retrieval.Result, error) { return retrieval.Result{}, err }
}

func panicking(context.Context, retrieval.Query) (retrieval.Result, error) {
	panic("index out of range")
}

// sleeping waits until its deadline.
func sleeping(ctx context.Context, _ retrieval.Query) (retrieval.Result, error) {
	<-ctx.Done()
	return retrieval.Result{}, ctx.Err()
}

// deaf answers after a second and ignores its context.
func deaf(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	<-time.After(time.Second) // fake time, in a synctest bubble
	return has(0, chunk("deaf.md", 0, 9, "too late"))(ctx, q)
}

func chunk(doc string, n int, score float64, text string) retrieval.Source {
	return retrieval.Source{Type: "rag", Doc: doc, Chunk: n, Score: score, Text: text}
}

func asking(ids ...string) retrieval.Query {
	q := retrieval.Query{Tenant: "t", Text: "question", Settings: retrieval.DefaultSettings()}
	for _, id := range ids {
		q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id, Generation: "g" + id})
	}
	return q
}

// Row K2 of deploy/CONTRIBUTING.md.
func TestPipelineDegrades(t *testing.T) {
	good := has(1, chunk("a.md", 0, 5, "an answer"))
	empty := has(1)
	down := failing(errors.New("connection refused"))
	young := func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Reason: retrieval.ReasonIndexing}, retrieval.ErrUnavailable
	}
	noTerms := func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Bases: q.Bases, Reason: retrieval.ReasonNoQueryTerms}, nil
	}
	stranger := func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Bases: q.Bases, Sources: []retrieval.Source{{Knowledge: "elsewhere", Score: 9}}}, nil
	}
	type want struct {
		Sources int
		Reason  retrieval.Reason
		Partial bool
		Fails   bool
	}
	for name, c := range map[string]struct {
		bases engines
		want  want
	}{
		"whole":               {engines{"a": good, "b": empty}, want{Sources: 1}},
		"no match":            {engines{"a": empty, "b": empty}, want{Reason: retrieval.ReasonNoMatch}},
		"no terms":            {engines{"a": noTerms, "b": noTerms}, want{Reason: retrieval.ReasonNoQueryTerms}},
		"no terms in one":     {engines{"a": noTerms, "b": empty}, want{Reason: retrieval.ReasonNoMatch}},
		"one late":            {engines{"a": good, "b": sleeping}, want{1, retrieval.ReasonTimeout, true, false}},
		"one deaf":            {engines{"a": good, "b": deaf}, want{1, retrieval.ReasonTimeout, true, false}},
		"one down":            {engines{"a": good, "b": down}, want{1, retrieval.ReasonError, true, false}},
		"one panics":          {engines{"a": good, "b": panicking}, want{1, retrieval.ReasonError, true, false}},
		"one indexing":        {engines{"a": good, "b": young}, want{1, retrieval.ReasonIndexing, true, false}},
		"one gone":            {engines{"a": good}, want{1, retrieval.ReasonError, true, false}},
		"another base's text": {engines{"a": good, "b": stranger}, want{1, retrieval.ReasonError, true, false}},
		"empty and late":      {engines{"a": empty, "b": sleeping}, want{0, retrieval.ReasonTimeout, true, false}},
		"late and down":       {engines{"a": sleeping, "b": down}, want{0, retrieval.ReasonError, true, true}},
		"all late":            {engines{"a": sleeping, "b": deaf}, want{0, retrieval.ReasonTimeout, true, true}},
		"all down":            {engines{"a": down, "b": panicking}, want{0, retrieval.ReasonError, true, true}},
		"all indexing":        {engines{"a": young, "b": young}, want{0, retrieval.ReasonIndexing, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res, err := c.bases.pipeline().Retrieve(t.Context(), asking("a", "b"))
				got := want{len(res.Sources), res.Reason, res.Partial, err != nil}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s%v", diff, err)
				}
				if err != nil && !errors.Is(err, retrieval.ErrUnavailable) {
					t.Errorf("%v does not wrap ErrUnavailable", err)
				}
				if limit := 300 * time.Millisecond; res.Took > limit {
					t.Errorf("took %v, deadline %v", res.Took, limit)
				}
				<-time.After(time.Second) // let the deaf searches end
			})
		})
	}
}

// Retrieve returns when the caller leaves, even if an engine ignores its context, and the error
// names the base.
func TestPipelineCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		res, err := engines{"docs": deaf}.pipeline().Retrieve(ctx, asking("docs"))
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("left after %v", took)
		}
		if !errors.Is(err, retrieval.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || res.Reason != retrieval.ReasonTimeout {
			t.Errorf("got %q, %v", res.Reason, err)
		}
		if err != nil && !strings.Contains(err.Error(), "base docs") {
			t.Errorf("%v does not name the base", err)
		}
		<-time.After(time.Second)
	})
}

func TestPipelineAsksEachBaseAlone(t *testing.T) {
	var asked [2]retrieval.Query
	note := func(i int) retrieval.Func {
		return func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			asked[i] = q
			return retrieval.Result{Bases: q.Bases}, nil
		}
	}
	q := asking("a", "b")
	q.Filter, q.Previous, q.Encoding = &filter.Filter{Type: filter.Eq, Key: "audience", Value: "readers"}, []retrieval.Turn{{Text: "before", Weight: 0.5}}, "o200k_base"
	q.Settings.NumCandidates = 17
	res, err := engines{"a": note(0), "b": note(1)}.pipeline().Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i, ref := range q.Bases {
		want := q
		want.Bases, want.Settings = []retrieval.Ref{ref}, retrieval.Settings{NumCandidates: 17}
		want.Hits = []retrieval.Hit{} // the buffer
		if diff := cmp.Diff(want, asked[i]); diff != "" {
			t.Errorf("query of %s (-want +got):\n%s", ref.Knowledge, diff)
		}
	}
	if diff := cmp.Diff(q.Bases, res.Bases); diff != "" {
		t.Errorf("searched (-want +got):\n%s", diff)
	}
}

// An empty or invalid policy searches with the defaults.
func TestPipelineSettings(t *testing.T) {
	var many []retrieval.Source
	for i := range 100 {
		many = append(many, chunk(string(rune('a'+i)), 0, 100-float64(i), string(rune('a'+i))))
	}
	for _, s := range []retrieval.Settings{{}, {TopK: -1, NumCandidates: -1, MaxPerDocument: -1, ScoreThreshold: -7, Deadline: -1}} {
		q := asking("a")
		q.Settings = s
		res, err := engines{"a": has(0, many...)}.pipeline().Retrieve(t.Context(), q)
		if err != nil || len(res.Sources) != 6 || res.Retrieved != 50 {
			t.Errorf("%+v: %d sources of %d, %v", s, len(res.Sources), res.Retrieved, err)
		}
	}
	res, err := engines{}.pipeline().Retrieve(t.Context(), asking())
	if err != nil || res.Reason != retrieval.ReasonNoKnowledge {
		t.Errorf("no bases: %q, %v", res.Reason, err)
	}
}

func TestPipelineCacheState(t *testing.T) {
	state := func(s retrieval.CacheState) retrieval.Func {
		return func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			return retrieval.Result{Bases: q.Bases, Cache: s}, nil
		}
	}
	for _, c := range []struct{ a, b, want retrieval.CacheState }{
		{retrieval.CacheHit, retrieval.CacheHit, retrieval.CacheHit},
		{retrieval.CacheHit, retrieval.CacheMiss, retrieval.CacheMiss},
		{retrieval.CacheHit, retrieval.CacheOff, retrieval.CacheMiss},
		{retrieval.CacheOff, retrieval.CacheOff, retrieval.CacheOff},
	} {
		res, _ := engines{"a": state(c.a), "b": state(c.b)}.pipeline().Retrieve(t.Context(), asking("a", "b"))
		if res.Cache != c.want {
			t.Errorf("%s and %s: got %s, want %s", c.a, c.b, res.Cache, c.want)
		}
	}
}

// Each cache lookup is reported, by base and query.
func TestPipelineTellsLookups(t *testing.T) {
	cached := func(s retrieval.CacheState, key uint32) retrieval.Func {
		return func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			return retrieval.Result{Bases: q.Bases, Cache: s, CacheKey: key + uint32(len(q.Text))}, nil
		}
	}
	q := asking("a", "b", "c", "d")
	q.Text, q.Further = "xx", []string{"yyy"}
	p := engines{"a": cached(retrieval.CacheHit, 10), "b": cached(retrieval.CacheMiss, 20), "c": cached(retrieval.CacheMiss, 30), "d": has(0)}.pipeline()
	p.Joint = func(id string) string { return map[string]string{"b": "one", "c": "one"}[id] }
	res, _ := p.Retrieve(t.Context(), q)
	want := []retrieval.Lookup{
		{Knowledge: "a", State: retrieval.CacheHit, Key: 12}, {Knowledge: "b", Others: 1, State: retrieval.CacheMiss, Key: 22},
		{Knowledge: "a", Query: 1, State: retrieval.CacheHit, Key: 13}, {Knowledge: "b", Others: 1, Query: 1, State: retrieval.CacheMiss, Key: 23},
	}
	if diff := cmp.Diff(want, res.Lookups); diff != "" || res.CacheKey != 0 {
		t.Errorf("key %d (-want +got):\n%s", res.CacheKey, diff)
	}
}

// Late counts the searches that missed the deadline, including those of plan queries and those
// without a vector of the question, whether some or all are late.
func TestPipelineCountsWhatIsLate(t *testing.T) {
	unembedded := func(why retrieval.EmbedReason) retrieval.Func {
		return func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
			res, err := has(1, chunk("a.md", 0, 5, "an answer"))(ctx, q)
			res.Degraded, res.EmbedFailure = retrieval.StageEmbed, why
			return res, err
		}
	}
	for name, c := range map[string]struct {
		bases   engines
		further []string
		late    int
		why     retrieval.EmbedReason
	}{
		"nothing":          {engines{"a": has(1), "b": failing(errors.New("down"))}, nil, 0, ""},
		"one":              {engines{"a": has(1), "b": sleeping}, nil, 1, ""},
		"all":              {engines{"a": sleeping, "b": sleeping}, nil, 2, ""},
		"queries":          {engines{"a": has(1), "b": sleeping}, []string{"more", "and more"}, 3, ""},
		"vector":           {engines{"a": unembedded(retrieval.EmbedTimeout), "b": sleeping}, nil, 2, retrieval.EmbedTimeout},
		"no vector at all": {engines{"a": unembedded(retrieval.EmbedInvalid), "b": has(1)}, nil, 0, retrieval.EmbedInvalid},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := asking("a", "b")
			q.Further = c.further
			res, _ := c.bases.pipeline().Retrieve(t.Context(), q)
			if res.Late != c.late || res.EmbedFailure != c.why {
				t.Errorf("%s: %d late, want %d; %s, want %s", name, res.Late, c.late, res.EmbedFailure, c.why)
			}
		})
	}
}
