package postgres_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
)

// A base without a schema, or that was never created, has a zero state and is no error; a search
// in it is.
func TestMissingBase(t *testing.T) {
	s := open(t, enginetest.Database(t), nil)
	for range 2 {
		states, err := s.States(t.Context(), []string{"a", "b"})
		if want := []engine.State{{Base: "a"}, {Base: "b"}}; err != nil || !reflect.DeepEqual(states, want) {
			t.Fatalf("states: %+v, %v", states, err)
		}
		if _, err := s.Search(t.Context(), &engine.Search{Bases: []string{"a"}, Terms: terms("word"), Depth: 3}); !errors.Is(err, engine.ErrNoBase) {
			t.Errorf("search: %v", err)
		}
		if _, err := s.Acquire(t.Context(), "a", "me", time.Minute); !errors.Is(err, engine.ErrNoBase) {
			t.Errorf("acquire: %v", err)
		}
		if err := s.Init(t.Context(), "other"); err != nil { // then the schema is there, but not the base
			t.Fatal(err)
		}
	}
}

// What is put is visible with Commit and not before, and so is what replaces or deletes it.
func TestCommitShowsEverythingAtOnce(t *testing.T) {
	s, _ := newBase(t, "a")
	l := acquire(t, s, "a")
	texts := func() []string {
		return names(search(t, s, &engine.Search{Bases: []string{"a"}, Terms: terms("parental leave of staff"), Depth: 10}), byWords)
	}
	one, two := document("one", nil, "Parental leave is long.", "It is for staff."), document("two", nil, "Leave the house at night.")
	if err := l.Put(t.Context(), []engine.Document{one, two}, nil); err != nil {
		t.Fatal(err)
	}
	if got := texts(); len(got) != 0 {
		t.Errorf("before the commit: %q", got)
	}
	if err := l.Commit(t.Context(), "aa", ""); err != nil {
		t.Fatal(err)
	}
	if got, want := texts(), []string{"one#0", "one#1", "two#0"}; !sameSet(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	state := mustState(t, s, "a")
	if state.Generation != "aa" || state.Documents != 2 || state.Chunks != 3 || state.Length == 0 || state.Distinct == 0 || state.Bytes != int64(len(one.Chunks[0].Text)+len(one.Chunks[1].Text)+len(two.Chunks[0].Text)) {
		t.Errorf("state: %+v", state)
	}

	changed := document("two", nil, "Staff may take parental leave.")
	for range 2 { // a Put can be repeated
		if err := l.Put(t.Context(), []engine.Document{changed}, []string{"one"}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := texts(), []string{"one#0", "one#1", "two#0"}; !sameSet(got, want) {
		t.Errorf("before the second commit: got %q, want %q", got, want)
	}
	if err := l.Commit(t.Context(), "bb", ""); err != nil {
		t.Fatal(err)
	}
	found := search(t, s, &engine.Search{Bases: []string{"a"}, Terms: terms("parental"), Depth: 10})
	if len(found.Candidates) != 1 || found.Candidates[0].Text != "Staff may take parental leave." || found.Candidates[0].Chunks != 1 {
		t.Errorf("after the second commit: %+v", found.Candidates)
	}
	if got := found.Counts[0][0]; got != (engine.TermCount{Text: terms("parental")[0].Text, Texts: 1, Total: 1}) {
		t.Errorf("counts: %+v", got)
	}
	vocabulary, err := s.Vocabulary(t.Context(), "a", 10)
	if err != nil || len(vocabulary) != len(changed.Terms) {
		t.Errorf("vocabulary: %v, %v", vocabulary, err)
	}
}

// All that is known of a chunk comes back.
func TestChunksComeBackWhole(t *testing.T) {
	s, _ := newBase(t, `a 'quoted" base`)
	l := acquire(t, s, `a 'quoted" base`)
	id := "it's \"one\"\n\\"
	d := document(id, map[string]any{"audience": "staff", "nul": "a\x00b"}, "First \x00 text.", "Second text.", "Third text.")
	r := rand.New(rand.NewPCG(1, 2))
	embed(&d, func(int) []float32 { return unit(r, 8) })
	write(t, l, "aa", "model/8", []engine.Document{d})
	base := []string{`a 'quoted" base`}
	found := search(t, s, &engine.Search{Bases: base, Terms: terms("second"), Vector: d.Chunks[1].Vector, Depth: 1, Neighbours: 1})
	if len(found.Candidates) != 1 {
		t.Fatalf("candidates: %+v", found.Candidates)
	}
	c := found.Candidates[0]
	if c.Cosine < .99999 || c.Cosine > 1.00001 {
		t.Errorf("cosine %v, want 1", c.Cosine)
	}
	want := engine.Candidate{Chunk: d.Chunks[1], ByWords: 1, ByVector: 1, Cosine: c.Cosine, Chunks: 3, AllLengths: int64(d.Chunks[0].Length + d.Chunks[1].Length + d.Chunks[2].Length)}
	want.Doc, want.Name, want.Before, want.After, want.Attributes = id, d.Name, "First \uFFFD text.", "Third text.", d.Attributes
	want.Vector, want.VectorKey = nil, nil
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	if got := found.States[0]; got.Space != "model/8" || got.Dimensions != 8 || got.Embedded != 3 {
		t.Errorf("state: %+v", got)
	}
	chunks, err := s.Passage(t.Context(), base[0], id, 1, 9, nil, "")
	if err != nil || len(chunks) != 2 || chunks[0].Text != "Second text." || !reflect.DeepEqual(chunks[0].Vector, d.Chunks[1].Vector) {
		t.Errorf("passage: %+v, %v", chunks, err)
	}
	vectors, err := l.Vectors(t.Context(), [][]byte{d.Chunks[0].VectorKey, {1}})
	if err != nil || len(vectors) != 1 || !reflect.DeepEqual(vectors[string(d.Chunks[0].VectorKey)], d.Chunks[0].Vector) {
		t.Errorf("vectors: %v, %v", vectors, err)
	}
	one, err := s.Sample(t.Context(), base[0], 2)
	two, err2 := s.Sample(t.Context(), base[0], 2)
	if err != nil || err2 != nil || len(one) != 2 || !reflect.DeepEqual(one, two) || one[0].Vector == nil {
		t.Errorf("sample: %+v, %v, %v", one, err, err2)
	}
}

// Only one writer has the lease. One that lost it cannot write, and what it put before is known to
// the next.
func TestLease(t *testing.T) {
	s, address := newBase(t, "a")
	first := acquire(t, s, "a")
	if _, err := s.Acquire(t.Context(), "a", "second", time.Minute); !errors.Is(err, engine.ErrLeaseTaken) {
		t.Fatalf("second writer: %v", err)
	}
	if err := first.Put(t.Context(), []engine.Document{document("one", nil, "Some text.")}, nil); err != nil {
		t.Fatal(err)
	}
	enginetest.Exec(t, address, "update sidenote.bases set lease_until = now() - interval '1 second'")
	second := acquire(t, s, "a")
	for what, err := range map[string]error{
		"renew":    first.Renew(t.Context()),
		"put":      first.Put(t.Context(), []engine.Document{document("two", nil, "Text.")}, nil),
		"commit":   first.Commit(t.Context(), "aa", ""),
		"measures": first.SetMeasures(t.Context(), "1", []byte("x")),
	} {
		if !errors.Is(err, engine.ErrLeaseLost) {
			t.Errorf("%s without the lease: %v", what, err)
		}
	}
	var known []engine.Known
	for k, err := range second.Known(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, k)
	}
	want := document("one", nil, "Some text.")
	if diff := cmp.Diff([]engine.Known{{ID: "one", Source: "one.md", Stamp: "1", Sum: want.Sum, Chunks: 1}}, known); diff != "" {
		t.Error(diff)
	}
	if err := second.Commit(t.Context(), "bb", ""); err != nil {
		t.Fatal(err)
	}
	if err := second.SetMeasures(t.Context(), "v1", []byte("measures")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Measures(t.Context(), "a"); string(got) != "measures" || err != nil {
		t.Errorf("measures: %q, %v", got, err)
	}
	if state := mustState(t, s, "a"); state.Measures != "v1" || state.Documents != 1 {
		t.Errorf("state: %+v", state)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Renew(t.Context()); !errors.Is(err, engine.ErrLeaseLost) {
		t.Errorf("renewed after its release: %v", err)
	}
	acquire(t, s, "a")
}

// Clean removes what is not visible, but not before the grace has passed.
func TestClean(t *testing.T) {
	s, address := newBase(t, "a")
	l := acquire(t, s, "a")
	write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text."), document("two", nil, "More text.")})
	write(t, l, "bb", "", []engine.Document{document("one", nil, "Other words.")}, "two")
	rows := func() string {
		return enginetest.Value(t, address, "select (select count(*) from sidenote.documents) || ' ' || (select count(*) from sidenote.chunks) || ' ' || (select count(*) from sidenote.document_terms) || ' ' || (select count(*) from sidenote.terms)")
	}
	if more, err := l.Clean(t.Context(), time.Hour); err != nil || more {
		t.Fatal(more, err)
	}
	if got := rows(); got != "3 3 3 1" { // the terms without texts are gone
		t.Errorf("before the grace has passed: %s", got)
	}
	if more, err := l.Clean(t.Context(), 0); err != nil || more {
		t.Fatal(more, err)
	}
	if got := rows(); got != "1 1 1 1" {
		t.Errorf("after: %s", got)
	}
	if got := names(search(t, s, &engine.Search{Bases: []string{"a"}, Terms: terms("words text"), Depth: 9}), byWords); !sameSet(got, []string{"one#0"}) {
		t.Errorf("found %q", got)
	}
}

func mustState(t *testing.T, s engine.Server, base string) engine.State {
	t.Helper()
	states, err := s.States(t.Context(), []string{base})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func sameSet(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	all := map[string]bool{}
	for _, s := range got {
		all[s] = true
	}
	for _, s := range want {
		if !all[s] {
			return false
		}
	}
	return true
}

// A base that was dropped and created again is written under its new number.
func TestAcquireAfterBaseWasCreatedAgain(t *testing.T) {
	s, address := newBase(t, "a")
	if err := acquire(t, s, "a").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	enginetest.Exec(t, address, "select sidenote.drop_base('a')")
	if _, err := s.Acquire(t.Context(), "a", "me", time.Minute); !errors.Is(err, engine.ErrNoBase) {
		t.Errorf("after it was dropped: %v", err)
	}
	if err := s.Init(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	acquire(t, s, "a")
	enginetest.Exec(t, address, "select sidenote.drop_base('a'); select sidenote.create_base('a')")
	if _, err := s.Acquire(t.Context(), "a", "me", time.Minute); err != nil {
		t.Errorf("after it was created again: %v", err)
	}
}

// A document that contradicts itself is named, and nothing of its batch is written.
func TestPutRefusesDocuments(t *testing.T) {
	s, address := newBase(t, "a")
	l := acquire(t, s, "a")
	r := rand.New(rand.NewPCG(1, 2))
	for want, change := range map[string]func(*engine.Document){
		`document "bad": the vector of chunk 1 has 5 dimensions, another 4`: func(d *engine.Document) { d.Chunks[1].Vector = unit(r, 5) },
		`document "bad" has words of 1 chunks, but 2 chunks`:                func(d *engine.Document) { d.Words = d.Words[:1] },
		`attributes of document "bad": they are no JSON object`:             func(d *engine.Document) { d.Attributes = `{"audience": staff}` },
		`attributes of document "bad": they are no JSON`:                    func(d *engine.Document) { d.Attributes = `["staff"]` },
	} {
		bad := document("bad", nil, "One text.", "Another text.")
		embed(&bad, func(int) []float32 { return unit(r, 4) })
		change(&bad)
		if err := l.Put(t.Context(), []engine.Document{document("good", nil, "Some text."), bad}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if got := rows(t, address); got != "0 documents, 0 chunks, 0 of terms" {
		t.Errorf("there are %s", got)
	}
	write(t, l, "aa", "", []engine.Document{document("good", nil, "Some text.")})
}
