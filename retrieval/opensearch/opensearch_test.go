package opensearch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/engine"
)

func TestCommitMakesAllVisibleAtOnce(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	must(t, l.Put(ctx, []engine.Document{document("one", "red apple", "green pear"), document("two", "red wine")}, nil))
	q := engine.Search{Bases: []string{"b"}, Terms: terms("red")}
	if got := found(t, s, &q); got != nil {
		t.Errorf("before Commit: %v", got)
	}
	must(t, l.Commit(ctx, "aa", ""))
	if diff := cmp.Diff([]string{"one/0", "two/0"}, found(t, s, &q)); diff != "" {
		t.Error(diff)
	}

	must(t, l.Put(ctx, []engine.Document{document("one", "red plum")}, []string{"two"}))
	if diff := cmp.Diff([]string{"one/0", "two/0"}, found(t, s, &q)); diff != "" {
		t.Errorf("put and not committed: %s", diff)
	}
	must(t, l.Commit(ctx, "bb", ""))
	f, err := s.Search(ctx, &engine.Search{Bases: []string{"b"}, Terms: terms("red", "pear", "plum"), Depth: 10})
	must(t, err)
	if len(f.Candidates) != 1 || f.Candidates[0].Text != "red plum" {
		t.Errorf("candidates %+v", f.Candidates)
	}
	want := [][]engine.TermCount{{{Text: "red", Texts: 1, Total: 1}}, {{Text: "pear"}}, {{Text: "plum", Texts: 1, Total: 1}}}
	if diff := cmp.Diff(want, f.Counts); diff != "" {
		t.Error(diff)
	}
	state := engine.State{Base: "b", Generation: "bb", Documents: 1, Chunks: 1, Bytes: 8, Length: 2, Distinct: 2}
	if diff := cmp.Diff(state, f.States[0]); diff != "" {
		t.Error(diff)
	}
}

func TestCandidateHasWhatWasPut(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	question := unit(1, 8)
	d := embedded(document("a \"b\"\n/ü", "x one", "x two", "x three"), question, unit(2, 8), unit(3, 8))
	d.Attributes = `{"k":"v"}`
	must(t, l.Put(ctx, []engine.Document{d, document("other", "y")}, nil))
	must(t, l.Commit(ctx, "aa", "m/8"))
	f, err := s.Search(ctx, &engine.Search{Bases: []string{"b"}, Terms: terms("two"), Vector: question, Depth: 10, Neighbours: 1})
	must(t, err)
	if len(f.Candidates) != 3 {
		t.Fatalf("%d candidates, want 3", len(f.Candidates))
	}
	for _, c := range f.Candidates {
		put := d.Chunks[c.Ordinal]
		if math.Abs(c.Cosine-dot(question, put.Vector)) > 5e-4 {
			t.Errorf("chunk %d: cosine %v, want %v", c.Ordinal, c.Cosine, dot(question, put.Vector))
		}
		if c.Chunks != 3 || c.AllLengths != 6 {
			t.Errorf("chunk %d: %d chunks with %d terms", c.Ordinal, c.Chunks, c.AllLengths)
		}
		want := put
		want.Doc, want.Name, want.Attributes, want.Vector = d.ID, d.Name, d.Attributes, nil
		switch c.Ordinal {
		case 0: // the best by vector
			want.After = "x two"
		case 1: // the best by words
			want.Before, want.After = "x one", "x three"
		}
		if diff := cmp.Diff(want, c.Chunk); diff != "" {
			t.Error(diff)
		}
		if byWords := c.Ordinal == 1; byWords != (c.ByWords == 1) || c.ByVector == 0 {
			t.Errorf("chunk %d has ranks %d and %d", c.Ordinal, c.ByWords, c.ByVector)
		}
	}
	if f.States[0].Embedded != 3 || f.States[0].Dimensions != 8 || f.States[0].Space != "m/8" {
		t.Errorf("state %+v", f.States[0])
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEndedChunksKeepTheirVectorsUntilCommit(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	question := unit(1, 8)
	must(t, l.Put(ctx, []engine.Document{embedded(document("one", "old text"), question)}, nil))
	must(t, l.Commit(ctx, "aa", "m/8"))
	must(t, l.Put(ctx, []engine.Document{embedded(document("one", "new text"), unit(2, 8))}, nil))
	f, err := s.Search(ctx, &engine.Search{Bases: []string{"b"}, Vector: question, Depth: 10})
	must(t, err)
	if len(f.Candidates) != 1 || f.Candidates[0].Text != "old text" || f.Candidates[0].Cosine < .999 {
		t.Errorf("candidates %+v", f.Candidates)
	}
	must(t, l.Commit(ctx, "bb", "m/8"))
	f, err = s.Search(ctx, &engine.Search{Bases: []string{"b"}, Vector: question, Depth: 10})
	must(t, err)
	if len(f.Candidates) != 1 || f.Candidates[0].Text != "new text" {
		t.Errorf("candidates %+v", f.Candidates)
	}
	if more, err := l.Clean(ctx, 0); more || err != nil {
		t.Errorf("clean: %v, %v", more, err)
	}
	vectors, err := l.Vectors(ctx, [][]byte{embedded(document("one", "old text"), question).Chunks[0].VectorKey})
	if err != nil || len(vectors) != 0 {
		t.Errorf("vectors of what was cleaned: %v, %v", vectors, err)
	}
}

func TestSecondServerSeesACommitWithItsNextSearch(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	must(t, l.Put(ctx, []engine.Document{document("one", "red")}, nil))
	must(t, l.Commit(ctx, "aa", ""))
	q := engine.Search{Bases: []string{"b"}, Terms: terms("red"), Depth: 10}
	other := openLike(t, s)
	if got := found(t, other, &q); !slices.Equal(got, []string{"one/0"}) {
		t.Fatal(got)
	}
	must(t, l.Put(ctx, []engine.Document{document("two", "red")}, []string{"one"}))
	must(t, l.Commit(ctx, "bb", ""))
	if got := found(t, other, &q); !slices.Equal(got, []string{"two/0"}) {
		t.Error(got)
	}
}

func TestLease(t *testing.T) {
	s, ctx := open(t), t.Context()
	if _, err := s.Acquire(ctx, "b", "me", time.Minute); !errors.Is(err, engine.ErrNoBase) {
		t.Errorf("no base: %v", err)
	}
	must(t, s.Init(ctx, "b"))
	first, err := s.Acquire(ctx, "b", "first", time.Minute)
	must(t, err)
	if _, err := s.Acquire(ctx, "b", "second", time.Minute); !errors.Is(err, engine.ErrLeaseTaken) {
		t.Errorf("taken: %v", err)
	} else {
		t.Log(err)
	}
	must(t, first.Put(ctx, []engine.Document{document("one", "red")}, nil))
	must(t, first.Release(ctx))
	second, err := s.Acquire(ctx, "b", "second", time.Minute)
	must(t, err)
	for name, call := range map[string]func() error{
		"renew":   func() error { return first.Renew(ctx) },
		"put":     func() error { return first.Put(ctx, []engine.Document{document("two", "red")}, nil) },
		"commit":  func() error { return first.Commit(ctx, "cc", "") },
		"release": func() error { return first.Release(ctx) },
		"clean":   func() error { _, err := first.Clean(ctx, 0); return err },
	} {
		if err := call(); !errors.Is(err, engine.ErrLeaseLost) {
			t.Errorf("%s with a lost lease: %v", name, err)
		}
	}
	var ids []string
	for k, err := range second.Known(ctx) {
		must(t, err)
		ids = append(ids, k.ID)
	}
	if !slices.Equal(ids, []string{"one"}) {
		t.Errorf("known %v", ids)
	}
	must(t, second.Commit(ctx, "dd", ""))
	if got := found(t, s, &engine.Search{Bases: []string{"b"}, Terms: terms("red")}); !slices.Equal(got, []string{"one/0"}) {
		t.Error(got)
	}
}

func TestBaseThatDoesNotExist(t *testing.T) {
	s, ctx := open(t), t.Context()
	states, err := s.States(ctx, []string{"none"})
	if err != nil || states[0] != (engine.State{Base: "none"}) {
		t.Errorf("states %+v, %v", states, err)
	}
	if _, err := s.Search(ctx, &engine.Search{Bases: []string{"none"}, Terms: terms("x"), Depth: 1}); !errors.Is(err, engine.ErrNoBase) {
		t.Errorf("search: %v", err)
	}
	must(t, s.Init(ctx, "empty"))
	must(t, s.Init(ctx, "empty"))
	if got := found(t, s, &engine.Search{Bases: []string{"empty"}, Terms: terms("x"), Vector: unit(1, 4)}); got != nil {
		t.Errorf("an empty base has %v", got)
	}
}

func TestPassageSampleVocabularyMeasures(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	must(t, l.Put(ctx, []engine.Document{embedded(document("one", "a a", "a b", "c"), unit(1, 4)), document("two", "a")}, nil))
	must(t, l.Commit(ctx, "aa", "m/4"))
	passage, err := s.Passage(ctx, "b", "one", 1, 3, nil, "")
	must(t, err)
	if len(passage) != 2 || passage[0].Text != "a b" || passage[1].Text != "c" {
		t.Errorf("passage %+v", passage)
	}
	sample, err := s.Sample(ctx, "b", 2)
	must(t, err)
	again, err := s.Sample(ctx, "b", 2)
	must(t, err)
	if diff := cmp.Diff(sample, again); diff != "" || len(sample) != 2 {
		t.Errorf("%d chunks; %s", len(sample), diff)
	}
	words, err := s.Vocabulary(ctx, "b", 2)
	must(t, err)
	if len(words) != 2 || words[0] != (engine.TermCount{Text: "a", Texts: 3, Total: 4}) {
		t.Errorf("vocabulary %+v", words)
	}
	large := make([]byte, 9<<20)
	large[len(large)-1] = 1
	must(t, l.SetMeasures(ctx, "v1", []byte("first")))
	must(t, l.SetMeasures(ctx, "v2", large))
	measures, err := s.Measures(ctx, "b")
	must(t, err)
	if !slices.Equal(measures, large) {
		t.Errorf("measures have %d bytes", len(measures))
	}
	f, err := s.Search(ctx, &engine.Search{Bases: []string{"b"}, Terms: terms("a"), Depth: 1})
	must(t, err)
	if f.States[0].Measures != "v2" {
		t.Errorf("measures %q", f.States[0].Measures)
	}
}

func TestLeaseIsRenewedDuringAPut(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	renewed := make(chan error, 1)
	go func() {
		var err error
		for range 20 {
			err = errors.Join(err, l.Renew(ctx))
		}
		renewed <- err
	}()
	for i := range 5 {
		must(t, l.Put(ctx, []engine.Document{document("one", fmt.Sprint("red ", i))}, nil))
		must(t, l.Commit(ctx, fmt.Sprint("a", i), ""))
	}
	must(t, <-renewed)
	if got := found(t, s, &engine.Search{Bases: []string{"b"}, Terms: terms("red", "4")}); !slices.Equal(got, []string{"one/0"}) {
		t.Error(got)
	}
}

// TestFullDiskIsAnErrorAndShowsNothing blocks writes as the server does when its disk is full.
func TestFullDiskIsAnErrorAndShowsNothing(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	must(t, l.Put(ctx, []engine.Document{document("one", "red old")}, nil))
	must(t, l.Commit(ctx, "aa", ""))
	index := "/" + s.Connection().Namespace + ".b.chunks/_settings"
	request(t, "PUT", index, `{"index.blocks.read_only_allow_delete":true}`)
	err := l.Put(ctx, []engine.Document{document("one", "red new")}, nil)
	if err == nil || errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), "disk usage") && !strings.Contains(err.Error(), "read-only") {
		t.Errorf("put: %v", err)
	}
	q := engine.Search{Bases: []string{"b"}, Terms: terms("old", "new")}
	if got := found(t, s, &q); !slices.Equal(got, []string{"one/0"}) {
		t.Error(got)
	}
	request(t, "PUT", index, `{"index.blocks.read_only_allow_delete":null}`)
	must(t, l.Put(ctx, []engine.Document{document("one", "red new"), document("two", "new")}, nil))
	must(t, l.Commit(ctx, "bb", ""))
	if got := found(t, s, &q); !slices.Equal(got, []string{"one/0", "two/0"}) {
		t.Error(got)
	}
}

// TestCommitRepairsWhatAWriterWroteAfterItsLease writes as a writer does that was stopped in the middle
// of a request: a chunk without a record, and the end of a chunk whose document did not change.
func TestCommitRepairsWhatAWriterWroteAfterItsLease(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	must(t, l.Put(ctx, []engine.Document{embedded(document("one", "red one", "red two"), unit(1, 4))}, nil))
	must(t, l.Commit(ctx, "aa", "m/4"))
	index := "/" + s.Connection().Namespace + ".b.chunks"
	request(t, "PUT", index+"/_doc/orphan", `{"base":"b","doc":"orphan","ordinal":0,"born":1,"died":9007199254740992,"length":2,
		"words":"red orphan","c":{"base":"b","doc":"orphan"}}`)
	must(t, l.Commit(ctx, "bb", "m/4"))
	q := engine.Search{Bases: []string{"b"}, Terms: terms("red")}
	if got := found(t, s, &q); !slices.Equal(got, []string{"one/0", "one/1"}) {
		t.Errorf("with a chunk too many: %v", got)
	}
	request(t, "POST", index+"/_update/"+idOfChunk(t, index, 1), `{"doc":{"died":2}}`)
	must(t, l.Commit(ctx, "cc", "m/4"))
	if got := found(t, s, &q); !slices.Equal(got, []string{"one/0", "one/1"}) {
		t.Errorf("with a chunk too few: %v", got)
	}
	q = engine.Search{Bases: []string{"b"}, Vector: unit(1, 4)}
	if got := found(t, s, &q); !slices.Equal(got, []string{"one/0", "one/1"}) {
		t.Errorf("by vector: %v", got)
	}
}

// idOfChunk returns the id of a chunk with an ordinal.
func idOfChunk(t *testing.T, index string, ordinal int) string {
	t.Helper()
	resp, err := http.Get(address(t).String() + index + "/_search?q=ordinal:" + fmt.Sprint(ordinal))
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Hits struct {
			Hits []struct {
				ID string `json:"_id"`
			}
		}
	}
	must(t, json.NewDecoder(resp.Body).Decode(&answer))
	return answer.Hits.Hits[0].ID
}
