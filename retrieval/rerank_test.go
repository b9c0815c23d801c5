package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
)

// A scorer adapts a function to a Reranker.
type scorer func(ctx context.Context, query string, documents []string) ([]float64, error)

func (s scorer) Rerank(ctx context.Context, query string, documents []string) ([]float64, error) {
	return s(ctx, query, documents)
}

// gives returns a scorer that scores documents by a word in them, others 0.
func gives(scores map[string]float64) scorer {
	return func(_ context.Context, _ string, documents []string) ([]float64, error) {
		out := make([]float64, len(documents))
		for i, text := range documents {
			for word, score := range scores {
				if strings.Contains(text, word) {
					out[i] = score
				}
			}
		}
		return out, nil
	}
}

func reranking(by retrieval.Reranker) *retrieval.Reranking {
	return &retrieval.Reranking{Reranker: by, RerankSettings: retrieval.RerankSettings{Upstream: "scorer", Model: "m", Documents: 50, Timeout: time.Second}}
}

// With a perfect Reranker the relevant candidate is among the first sources, however low the
// search ranked it: the result reaches the recall of its candidates.
func TestRerankReachesTheRecallOfItsCandidates(t *testing.T) {
	var list []retrieval.Source
	for i := range 50 {
		list = append(list, chunk(fmt.Sprintf("d%02d.md", i), 0, 60-float64(i), fmt.Sprintf("text%02d of its own, word%d", i, i)))
	}
	relevant := map[string]float64{"text49": .9, "text31": .8, "text17": .7, "text08": .6}
	p := engines{"a": has(2, list...)}.pipeline()
	q := asking("a")
	q.Settings.TopK = len(relevant)
	found := func(res retrieval.Result) (n int) {
		for _, s := range res.Sources {
			if relevant[s.Text[:6]] > 0 {
				n++
			}
		}
		return n
	}
	plain, err := p.Retrieve(t.Context(), q)
	if err != nil || found(plain) != 0 || plain.Reranked != nil {
		t.Fatalf("without: %d found, %v, %v", found(plain), plain.Reranked, err)
	}
	q.Reranking = reranking(gives(relevant))
	res, err := p.Retrieve(t.Context(), q)
	if err != nil || found(res) != len(relevant) || res.Sources[0].Doc != "d49.md" {
		t.Errorf("%d found, %v", found(res), err)
	}
	want := &retrieval.Reranked{Upstream: "scorer", Model: "m", Documents: 50, Reason: retrieval.RerankOK, Took: res.Reranked.Took}
	if diff := cmp.Diff(want, res.Reranked); diff != "" || res.Degraded != "" {
		t.Errorf("degraded %q, -want +got:\n%s", res.Degraded, diff)
	}
	if p.Punctual = true; retrieval.AnswersAtOnce(p, q) {
		t.Error("what waits for a service is answered at once")
	}
}

// If a Reranker fails, the answer has the order of the search, reports the failure and is not
// cacheable.
func TestRerankFails(t *testing.T) {
	p := engines{
		"a": has(2, chunk("a.md", 0, 9, "first words"), chunk("b.md", 0, 5, "second text"), chunk("c.md", 0, 1, "too weak")),
		"b": has(0, chunk("d.md", 0, 0.7, "third line")),
	}.pipeline()
	for name, c := range map[string]struct {
		by   retrieval.Reranker
		want retrieval.RerankReason
	}{
		"nobody":       {nil, retrieval.RerankDisabled},
		"no room":      {scoring(nil, fmt.Errorf("no room: %w", retrieval.ErrNotAsked)), retrieval.RerankDisabled},
		"down":         {scoring(nil, errors.New("connection refused")), retrieval.RerankError},
		"panics":       {scorer(func(context.Context, string, []string) ([]float64, error) { panic("index out of range") }), retrieval.RerankError},
		"bad":          {scoring(nil, fmt.Errorf("index 7: %w", retrieval.ErrBadScores)), retrieval.RerankInvalid},
		"too few":      {scoring([]float64{1, 2}, nil), retrieval.RerankInvalid},
		"too many":     {scoring([]float64{1, 2, 3, 4, 5}, nil), retrieval.RerankInvalid},
		"not a number": {scoring([]float64{1, math.NaN(), 2, 3}, nil), retrieval.RerankInvalid},
		"infinite":     {scoring([]float64{1, 2, math.Inf(1), 3}, nil), retrieval.RerankInvalid},
		"hangs": {scorer(func(ctx context.Context, _ string, _ []string) ([]float64, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), retrieval.RerankTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := asking("a", "b")
			plain, err := p.Retrieve(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			q.Reranking = reranking(c.by)
			q.Reranking.Threshold = 0.5 // without effect, as nothing is scored
			start := time.Now()
			res, err := p.Retrieve(t.Context(), q)
			if took := time.Since(start); err != nil || took > time.Second {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			if diff := cmp.Diff(outcome(plain), outcome(res)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
			if res.Degraded != retrieval.StageRerank || res.Reranked.Failed() != c.want || res.Reranked.Documents != 4 || res.Partial || res.Reason != "" {
				t.Errorf("%s: degraded %q, %+v", name, res.Degraded, res.Reranked)
			}
		})
	}
}

func scoring(scores []float64, err error) scorer {
	return func(context.Context, string, []string) ([]float64, error) { return scores, err }
}

// A rerank threshold replaces the thresholds of bases for scored candidates; without one only
// candidates above those are reranked.
func TestRerankThreshold(t *testing.T) {
	p := engines{"a": has(2, chunk("a.md", 0, 9, "alpha"), chunk("b.md", 0, 5, "beta"), chunk("c.md", 0, 1, "gamma"), chunk("d.md", 0, 0.5, "delta"))}.pipeline()
	scores := gives(map[string]float64{"alpha": .1, "beta": .6, "gamma": .9, "delta": .8})
	for name, c := range map[string]struct {
		threshold float64
		documents int
		want      string
		scores    string // of the sources; of the excluded candidates
	}{
		"the bases'":  {0, 50, "in  a/b.md#0\nin  a/a.md#0\nout a/c.md#0 score: score 1.0 < 2.0\nout a/d.md#0 score: score 0.5 < 2.0\n4 retrieved, 4 unique", " 0.6 0.1; - -"},
		"its own":     {.5, 50, "in  a/c.md#0\nin  a/d.md#0\nin  a/b.md#0\nout a/a.md#0 rerank: rerank score 0.1 < 0.5\n4 retrieved, 4 unique", " 0.9 0.8 0.6; 0.1"},
		"of some":     {.5, 3, "in  a/c.md#0\nin  a/b.md#0\nout a/a.md#0 rerank: rerank score 0.1 < 0.5\nout a/d.md#0 score: score 0.5 < 2.0\n4 retrieved, 4 unique", " 0.9 0.6; 0.1 -"},
		"the first 1": {0, 1, "in  a/a.md#0\nin  a/b.md#0\nout a/c.md#0 score: score 1.0 < 2.0\nout a/d.md#0 score: score 0.5 < 2.0\n4 retrieved, 4 unique", " - -; - -"},
	} {
		q := asking("a")
		q.Reranking = reranking(scores)
		q.Reranking.Threshold, q.Reranking.Documents = c.threshold, c.documents
		res, err := p.Retrieve(t.Context(), q)
		if diff := cmp.Diff(c.want, outcome(res)); err != nil || diff != "" || res.Degraded != "" {
			t.Errorf("%s: %v, -want +got:\n%s", name, err, diff)
		}
		if got := rerankScores(res); got != c.scores {
			t.Errorf("%s: scores%s, want%s", name, got, c.scores)
		}
	}
}

// rerankScores formats the scores of sources and, after a semicolon, of excluded candidates.
func rerankScores(res retrieval.Result) (text string) {
	add := func(score *float64) {
		if score == nil {
			text += " -"
		} else {
			text += fmt.Sprintf(" %g", *score)
		}
	}
	for _, s := range res.Sources {
		add(s.RerankScore)
	}
	text += ";"
	for _, x := range res.Excluded.List() {
		add(x.RerankScore)
	}
	return text
}

// A Reranker gets name, section and text of each candidate, even if its engine keeps the text, and
// the question with the turns that join it, all cut to their limits. It is not called if there is
// nothing to order.
func TestRerankReads(t *testing.T) {
	long := chunk("long.md", 0, 8, strings.Repeat("wörd ", 2000))
	named := chunk("a.md", 0, 9, "its text")
	named.Name, named.Section = "Title", "Part > One"
	var query string
	var documents []string
	record := scorer(func(_ context.Context, q string, d []string) ([]float64, error) {
		query, documents = q, d
		return make([]float64, len(d)), nil
	})
	q := asking("a")
	q.Text, q.Previous = strings.Repeat("how long ", 20000), []retrieval.Turn{{Text: "last"}, {Text: "first"}}
	q.Reranking = reranking(record)
	res, err := engines{"a": has(2, named, long)}.pipeline().Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) != 2 || res.Sources[0].Doc != "a.md" { // equal scores keep the order
		t.Fatalf("%v, %v", res.Sources, err)
	}
	if !strings.HasPrefix(query, "first\nlast\nhow long ") || len(query) > 3000 {
		t.Errorf("query of %d bytes: %.40q", len(query), query)
	}
	if documents[0] != "Title\nPart > One\nits text" || len(documents[1]) > 4096 || len(documents[1]) < 4000 || !utf8.ValidString(documents[1]) {
		t.Errorf("documents %.60q", documents)
	}
	documents = nil
	for _, found := range []retrieval.Func{has(2), has(2, named), has(20, named, long)} {
		res, err := engines{"a": found}.pipeline().Retrieve(t.Context(), q)
		if err != nil || documents != nil || res.Degraded != "" || res.Reranked.Reason != retrieval.RerankDisabled {
			t.Errorf("%v, read %q, %+v", err, documents, res.Reranked)
		}
	}
}

// Bases get queries without Reranking, so that all policies share their candidates.
func TestRerankIsNotOfBases(t *testing.T) {
	q := asking("a")
	q.Reranking = reranking(gives(nil))
	asked := 0
	_, err := engines{"a": func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		if asked++; q.Reranking != nil {
			t.Error("a base is asked to rerank")
		}
		return retrieval.Result{Bases: slices.Clone(q.Bases)}, nil
	}}.pipeline().Retrieve(t.Context(), q)
	if err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}
