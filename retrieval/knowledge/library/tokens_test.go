package library_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// Tokens are counted for the store in every encoding; inexact counts are not used.
func TestTokens(t *testing.T) {
	d := deps()
	d.Encodings = map[string]retrieval.Counter{"exact": exactly{}, "bound": knowledgetest.FourBytes{}}
	l, err := library.OpenLoaded(t.Context(), store.Memory, d, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: "a", Text: "twelve bytes"}); err != nil {
		t.Fatal(err)
	}
	e, err := l.Document(t.Context(), "kb", "a")
	if err != nil || len(e.Chunks) != 1 || !maps.Equal(e.Chunks[0].Tokens, map[string]int{"exact": 3}) {
		t.Errorf("%+v, %v", e, err)
	}
}

// tokensOf returns the token counts of the sources for a question in an encoding, and their texts.
func tokensOf(t *testing.T, l *library.Library, encoding string) (counts []int, texts []string) {
	t.Helper()
	res, err := retrieval.WithTexts{Next: l.Base("kb")}.Retrieve(t.Context(), retrieval.Query{Text: "twelve bytes", Encoding: encoding, Settings: retrieval.Settings{NumCandidates: 50}})
	if err != nil || len(res.Sources) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, s := range res.Sources {
		counts, texts = append(counts, s.Tokens), append(texts, s.Text)
	}
	return counts, texts
}

// Sources have the token counts made when they were written, in the query's encoding, by the same
// version of the counter, also after a restart and a merge.
func TestTokensOfSources(t *testing.T) {
	dir := t.TempDir()
	open := func(version string) *library.Library {
		t.Helper()
		d := deps()
		d.Version, d.Encodings = version, map[string]retrieval.Counter{"four": exactly{}, "whole": onePerText{}}
		l, err := library.OpenLoaded(t.Context(), dir, d, library.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	known := func(l *library.Library, what string) {
		t.Helper()
		counts, texts := tokensOf(t, l, "four")
		for i, n := range counts {
			if want, _ := (exactly{}).Count(texts[i]); n != want || n == 0 {
				t.Errorf("%s: %d tokens of %q, want %d", what, n, texts[i], want)
			}
		}
		if counts, _ := tokensOf(t, l, "whole"); slices.ContainsFunc(counts, func(n int) bool { return n != 1 }) {
			t.Errorf("%s: %v in the other encoding", what, counts)
		}
		for _, encoding := range []string{"", "fou", "four ", "unknown"} {
			if counts, _ := tokensOf(t, l, encoding); slices.ContainsFunc(counts, func(n int) bool { return n != 0 }) {
				t.Errorf("%s: %v in encoding %q", what, counts, encoding)
			}
		}
	}
	l := open("one")
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * index.MergeAt {
		if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: fmt.Sprint(i), Text: "twelve bytes" + strings.Repeat(" and more", i)}); err != nil {
			t.Fatal(err)
		}
	}
	l.Quiet()
	known(l, "merged")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open("one")
	known(l, "opened")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open("two")
	if counts, _ := tokensOf(t, l, "four"); slices.ContainsFunc(counts, func(n int) bool { return n != 0 }) {
		t.Errorf("of another version: %v", counts)
	}
	// Its segments are made again from the store, whose counts it does not trust either.
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, file := range files {
		if image, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(image), "SNshelf\n") {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			removed++
		}
	}
	if removed == 0 {
		t.Fatalf("no segments among %q", files)
	}
	l = open("two")
	if counts, _ := tokensOf(t, l, "four"); slices.ContainsFunc(counts, func(n int) bool { return n != 0 }) {
		t.Errorf("made again by another version: %v", counts)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open("one")
	defer func() { _ = l.Close() }()
	if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: "new", Text: "twelve bytes anew"}); err != nil {
		t.Fatal(err)
	}
	counts, texts := tokensOf(t, l, "four")
	for i, text := range texts {
		if strings.HasSuffix(text, "anew") != (counts[i] > 0) {
			t.Errorf("%q has %d tokens in a segment that another version made", text, counts[i])
		}
	}
}

// exactly is fourBytes, but reports exact counts.
type exactly struct{}

func (exactly) Count(text string) (int, bool) { return (len(text) + 3) / 4, true }

// onePerText is a counter with obviously different counts.
type onePerText struct{}

func (onePerText) Count(string) (int, bool) { return 1, true }
