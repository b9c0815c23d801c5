package library_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A base so large that its floor is not measured from scratch after each change answers like a
// fresh one with the same documents: after documents were added, replaced and removed, after
// merges, and in another process.
func TestLargeBaseAfterChanges(t *testing.T) {
	words := []string{"ant", "bee", "cat", "dog", "elk", "laptop", "leave", "parental", "company"}
	if testing.Short() {
		t.Skip("10,000 documents")
	}
	const many = 10_100
	all := map[string]chunk.Document{}
	dir := t.TempDir()
	l := opened(t, dir, library.Options{})
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	put := func(documents ...chunk.Document) {
		t.Helper()
		for _, d := range documents {
			all[d.ID] = d
		}
		if _, err := l.Put(t.Context(), "kb", documents...); err != nil {
			t.Fatal(err)
		}
	}
	var documents []chunk.Document
	for i := range many {
		text := fmt.Sprintf("%s %s %s %s", words[i%7], words[i%9], words[i/7%9], words[i%5])
		documents = append(documents, chunk.Document{ID: fmt.Sprint("many", i), Text: text})
	}
	put(documents...)
	if n := l.Base("kb").Content().Chunks(); n < 10_000 {
		t.Fatalf("%d chunks", n)
	}
	for i := range 10 {
		put(chunk.Document{ID: fmt.Sprint("one", i%7), Text: fmt.Sprintf("%s of a %s number %d", words[i%9], words[i%4], i)})
	}
	if err := l.Delete(t.Context(), "kb", "one3"); err != nil {
		t.Fatal(err)
	}
	delete(all, "one3")
	l.Quiet()
	want := fresh(t, all)
	for _, l := range []*library.Library{l, opened(t, dir, library.Options{ReadOnly: true})} { // the second starts from the saved calibration
		for _, text := range questions() {
			q := retrieval.Query{Text: text, Settings: retrieval.DefaultSettings()}
			got, err := retrieval.WithTexts{Next: l.Base("kb")}.Retrieve(t.Context(), q)
			w, _ := retrieval.WithTexts{Next: want}.Retrieve(t.Context(), q)
			if diff := cmp.Diff(w, got, cmpopts.IgnoreFields(retrieval.Result{}, "Took")); diff != "" || err != nil || w.Floor == 0 {
				t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
			}
		}
	}
	s, err := store.OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if saved, err := s.Calibration(t.Context(), "kb"); len(saved) == 0 || err != nil {
		t.Errorf("saved %d bytes, %v", len(saved), err)
	}
}
