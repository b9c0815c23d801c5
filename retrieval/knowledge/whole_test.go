package knowledge_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// Of two documents with a chunk that answers, the one that is also otherwise about the question
// comes first; it counts once.
func TestDocumentAsAWhole(t *testing.T) {
	answer := "Descale the kettle, and rinse the kettle twice."
	about := []string{answer, "A kettle is no toy: this kettle boils, that kettle whistles, every kettle burns.", "Descale in spring, descale in autumn, descale when in doubt."}
	other := []string{answer + " Kettle.", "The lamp has four settings.", "Dim the lamp at night."}
	f := func(documents map[string][]string, want ...string) {
		t.Helper()
		texts := map[string]string{}
		for id, sections := range documents {
			texts[id] = sectioned(id, sections)
		}
		for n := range 20 { // so that few texts contain "kettle"
			texts[fmt.Sprintf("more%02d.md", n)] = sectioned(fmt.Sprint("more", n), []string{"The oven is hot.", "The fridge is cold."})
		}
		b := knowledge.New("test")
		b.Swap(build(t, texts))
		var got []string
		for _, s := range ask(t, b, "descale kettle").Sources {
			got = append(got, fmt.Sprintf("%s#%d", s.Doc, s.Chunk))
		}
		if len(got) < len(want) || strings.Join(got[:len(want)], " ") != strings.Join(want, " ") {
			t.Errorf("%v, want first %v", got, want)
		}
	}
	f(map[string][]string{"a.md": about, "b.md": other}, "a.md#0", "b.md#0", "a.md#1")
	f(map[string][]string{"a.md": {about[0], other[1], other[2]}, "b.md": other}, "b.md#0", "a.md#0")
	// Documents of one chunk are ranked as chunks.
	f(map[string][]string{"a.md": about[:1], "b.md": other[:1]}, "b.md#0", "a.md#0")
}

// The first hits are the same, however many are requested.
func TestFewHitsAreTheFirstOfMany(t *testing.T) {
	texts := map[string]string{}
	for n := range 12 {
		texts[fmt.Sprintf("%02d.md", n)] = sectioned(fmt.Sprint(n), []string{
			"Descale it. " + strings.Repeat("Kettle. ", n%5), strings.Repeat("Kettle. ", 12-n), "Lamps."})
	}
	b := knowledge.New("test")
	b.Swap(build(t, texts))
	q := retrieval.Query{Text: "descale kettle", Settings: retrieval.DefaultSettings()}
	many, err := b.Retrieve(t.Context(), q)
	if err != nil || len(many.Sources) < 20 {
		t.Fatalf("%d sources, %v", len(many.Sources), err)
	}
	for k := 1; k <= 20; k++ {
		q.Settings.NumCandidates = k
		few, err := b.Retrieve(t.Context(), q)
		if err != nil || len(few.Sources) != k {
			t.Fatalf("%d sources of %d, %v", len(few.Sources), k, err)
		}
		for i, s := range few.Sources {
			if w := many.Sources[i]; s.Doc != w.Doc || s.Chunk != w.Chunk || s.Score != w.Score {
				t.Errorf("number %d of %d is %s#%d with %v, want %s#%d with %v", i, k, s.Doc, s.Chunk, s.Score, w.Doc, w.Chunk, w.Score)
			}
		}
	}
}

// sectioned returns a document whose sections are too long to share a chunk.
func sectioned(id string, sections []string) string {
	var b strings.Builder
	for i, text := range sections {
		fmt.Fprintf(&b, "## Part %d\n\n%s\n\n", i, text)
		for word := range 120 {
			fmt.Fprintf(&b, "w%sx%dx%d ", strings.TrimSuffix(id, ".md"), i, word)
		}
		b.WriteString("\n\n")
	}
	return b.String()
}
