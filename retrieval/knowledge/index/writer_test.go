package index_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/index"
)

// wordy returns documents with one text each, of n words that occur in no other document.
func wordy(documents, n int) map[int64][]string {
	out := map[int64][]string{}
	for i := range documents {
		var words strings.Builder
		for word := range n {
			fmt.Fprintf(&words, "w%dx%d ", i, word)
		}
		out[int64(i)] = []string{fmt.Sprintf("d%02d", i), "", "{}", "", words.String()}
	}
	return out
}

// If documents have more words than one index can hold, there are several segments; each document
// is in one. A document with too many words of its own is rejected by name, and nothing panics.
func TestSegmentsHoldOrRefuse(t *testing.T) {
	const limit = 16 << 10
	images, err := index.WriteWithin(limit, wordy(50, 100))
	if err != nil || len(images) < 5 {
		t.Fatalf("%d segments, %v", len(images), err)
	}
	rows := map[int64]int{}
	for _, image := range images {
		s, err := index.Open("", image, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range s.Rows() {
			rows[row]++
		}
	}
	for row := range int64(50) {
		if rows[row] != 1 {
			t.Errorf("document %d stands in %d segments", row, rows[row])
		}
	}

	documents := wordy(3, 100)
	documents[7] = []string{"huge.md", "Huge", "{}", "", wordy(1, 2000)[0][4]}
	const want = `document "huge.md": too much for one segment: too many different terms`
	if images, err := index.WriteWithin(limit, documents); err == nil || err.Error() != want {
		t.Errorf("%d segments, %v, want %q", len(images), err, want)
	}
}
