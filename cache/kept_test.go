package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cache"
	"sidenote/retrieval"
)

// A keeper is an engine that keeps the texts of its sources.
type keeper struct {
	res     retrieval.Result
	located error
	reads   int
	missing bool // no text can be read
}

func (k *keeper) Retrieve(context.Context, retrieval.Query) (retrieval.Result, error) {
	return k.res, nil
}

func (k *keeper) Locate(context.Context, retrieval.Query, []*retrieval.Source) (retrieval.Texts, error) {
	return k, k.located
}

func (k *keeper) Mark([]retrieval.Hit) error { return nil }

func (k *keeper) Sketch(*retrieval.Hit) (retrieval.Sketch, error) {
	return retrieval.Sketch{}, errors.ErrUnsupported
}

func (k *keeper) Read(sources []*retrieval.Source) error {
	k.reads++
	if k.missing {
		return &retrieval.UnreadableError{Knowledge: "docs", Err: errors.New("damaged")}
	}
	for _, s := range sources {
		s.Text, s.Tokens = "text of "+s.Doc, 7
	}
	for _, s := range sources {
		s.Name, s.Section = "name of "+s.Doc, "section"
	}
	return nil
}

func (k *keeper) Label(hits []*retrieval.Hit, add func(retrieval.Label)) error {
	for _, hit := range hits {
		doc := fmt.Sprintf("handbook/people/part-%02d.md", hit.At.Text/1000)
		add(retrieval.Label{Doc: []byte(doc), Name: []byte("name of " + doc), Section: []byte("section")})
	}
	return nil
}

// keeping returns an engine whose pipeline selects two sources and excludes the rest of fifty.
func keeping() *keeper {
	r := retrieval.Result{Bases: question("").Bases, Floor: 3.5, Retrieved: 50, Unique: 49}
	var excluded []retrieval.Excluded
	for i := range 50 {
		s := retrieval.Source{
			Type: "rag", Knowledge: "docs", Doc: fmt.Sprintf("handbook/people/part-%02d.md", i), Chunk: i % 3, Score: float64(9<<20-i*12345) / (1 << 20),
			Name: fmt.Sprintf("name of handbook/people/part-%02d.md", i), Section: "section", At: retrieval.Place{Kept: true, Segment: 1, Text: 1000 * i},
		}
		s.Relevance = retrieval.Relevance(s.Score, r.Floor)
		if i < 6 {
			s.Text, s.Tokens = "text of "+s.Doc, 7
			r.Sources = append(r.Sources, s)
			continue
		}
		x := retrieval.Excluded{
			Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Score: s.Score, Relevance: s.Relevance, At: s.At,
			Reason: retrieval.ExcludedTopK, Detail: "after the best 6",
		}
		if i > 30 {
			x.Reason, x.Detail, x.MinScore = retrieval.ExcludedScore, "", 9.5
		}
		excluded = append(excluded, x)
	}
	r.Excluded = retrieval.NewExcludedList(excluded)
	return &keeper{res: r}
}

// If an engine keeps the texts of sources, a value stores only references of a few bytes; a hit
// equals the original result.
func TestKeptTextsAreReadAgain(t *testing.T) {
	store, engine := memory(t, 1<<20), keeping()
	r := cache.NewRetriever(engine, cache.Selected, near(store), nil)
	for _, want := range []retrieval.CacheState{retrieval.CacheMiss, retrieval.CacheHit, retrieval.CacheHit} {
		got, err := r.Retrieve(t.Context(), question("q"))
		if diff := cmp.Diff(engine.res, got, like); err != nil || got.Cache != want || diff != "" {
			t.Fatalf("%s, want %s (%v):\n%s", got.Cache, want, err, diff)
		}
	}
	if engine.reads != 1 {
		t.Errorf("texts were read %d times, want once: the second hit is remembered", engine.reads)
	}
	value, err := store.Get(t.Context(), cache.NewKey(cache.Selected, question("q")).String())
	if err != nil || bytes.Contains(value, []byte("text of")) || bytes.Contains(value, []byte("name of")) {
		t.Errorf("the value holds texts: %q, %v", value, err)
	}
	if each := len(value) / 50; each > 25 {
		t.Errorf("%d bytes a source", each)
	}
}

// The texts of candidates are read when they are selected.
func TestKeptCandidatesComeWithTheirTexts(t *testing.T) {
	engine := keeping()
	engine.res.Texts = engine
	r := cache.NewRetriever(engine, cache.Candidates, near(memory(t, 1<<20)), nil)
	for _, want := range []retrieval.CacheState{retrieval.CacheMiss, retrieval.CacheHit, retrieval.CacheHit} {
		got, err := r.Retrieve(t.Context(), question("q"))
		if err != nil || got.Cache != want || got.Texts != engine || engine.reads != 0 {
			t.Errorf("%s, want %s: texts %v, %d read, %v", got.Cache, want, got.Texts, engine.reads, err)
		}
	}
}

// Texts that cannot be read any more make a miss: the base has changed, or its file is damaged. A
// reference to a document that the generation does not have is a Mismatch, which is counted.
func TestKeptTextsThatAreNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*keeper)
		want   cache.Event
	}{
		"gone":         {func(k *keeper) { k.located = fmt.Errorf("docs: %w", retrieval.ErrGone) }, cache.Event{Result: cache.Miss}},
		"damaged":      {func(k *keeper) { k.missing = true }, cache.Event{Result: cache.Miss}},
		"no such text": {func(k *keeper) { k.located = fmt.Errorf("docs: %w", retrieval.ErrNoHit) }, cache.Event{Result: cache.Mismatched, Mismatch: cache.MismatchBody}},
	} {
		t.Run(name, func(t *testing.T) {
			near, engine := cache.Tier{Name: "near", Store: memory(t, 1<<20), TTL: time.Minute}, keeping()
			far := cache.Tier{Name: "far", Store: memory(t, 1<<20), TTL: time.Minute}
			var seen events
			r := cache.NewRetriever(engine, cache.Selected, []cache.Tier{near, far}, seen.observe)
			ask := func() retrieval.Result {
				t.Helper()
				res, err := r.Retrieve(t.Context(), question("q"))
				if diff := cmp.Diff(engine.res, res, like); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				return res
			}
			ask()
			seen.list = nil
			c.change(engine)
			if res := ask(); res.Cache != retrieval.CacheMiss {
				t.Errorf("cache=%s", res.Cache)
			}
			want := []cache.Event{c.want, c.want}
			want[0].Tier, want[1].Tier, want[0].Kind, want[1].Kind = "near", "far", cache.Selected, cache.Selected
			if diff := cmp.Diff(want, seen.list); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// A value that refers to kept texts is a Mismatch if the engine keeps none.
func TestKeptTextsOfAnEngineThatKeepsNone(t *testing.T) {
	store := memory(t, 1<<20)
	key := cache.NewKey(cache.Selected, question("q"))
	if err := store.Set(t.Context(), key.String(), cache.Encode(key, keeping().res), time.Hour); err != nil {
		t.Fatal(err)
	}
	var seen events
	r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, near(store), seen.observe)
	got, err := r.Retrieve(t.Context(), question("q"))
	if diff := cmp.Diff(answer(), got, like); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]cache.Outcome{cache.Mismatched}, seen.outcomes()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
