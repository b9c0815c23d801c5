package similar_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/similar"
)

// A misspelling has at most two edits; in a short word, at most half its length.
func TestWord(t *testing.T) {
	for s, want := range map[string]string{
		"handbok": "handbook", "hadnbook": "handbook", "handbook": "handbook", "hndbok": "handbook", "hndbk": "", "hr": "hr", "hx": "hr", "x": "", "": "",
		"product-v3": "product-v2", strings.Repeat("a", 65): "",
	} {
		if got := similar.Word(s, []string{"handbook", "product-v2", "hr", strings.Repeat("a", 66)}); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
	if got := similar.Word("cat", []string{"bat", "cut", "cart"}); got != "bat" {
		t.Errorf("of equally near ones: %q", got)
	}
}

// A word with at most two edits is found, whatever it is; one whose length differs by more is
// not.
func TestWordFindsEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z0-9_-]{6,60}`).Draw(t, "word")
		wrong := []byte(word)
		// One edit in either half: a swap counts as one edit only if its letters are not changed
		// otherwise.
		for _, at := range []int{len(word) - 2, rapid.IntRange(0, len(word)-5).Draw(t, "at")}[:rapid.IntRange(0, 2).Draw(t, "edits")] {
			switch rapid.IntRange(0, 3).Draw(t, "edit") {
			case 0:
				wrong[at] = 'x'
			case 1:
				wrong = slices.Delete(wrong, at, at+1)
			case 2:
				wrong = slices.Insert(wrong, at, 'y')
			default:
				wrong[at], wrong[at+1] = wrong[at+1], wrong[at]
			}
		}
		if got := similar.Word(string(wrong), []string{word}); got != word {
			t.Fatalf("%s for %s is %q", wrong, word, got)
		}
		if got := similar.Word(word+"abc", []string{word}); got != "" {
			t.Fatalf("three letters more than %s is %q", word, got)
		}
	})
}
