package analysis_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
)

// Edits is the optimal string alignment distance, computed in the simplest way, up to the limit.
func TestEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abcü]{0,7}`)
		a, b, most := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 3).Draw(t, "most")
		if got, want := analysis.Edits(a, b, most), min(alignment([]rune(a), []rune(b)), most+1); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"paymnets", "payments", 1}, {"kundigung", "kündigung", 1}, {"recieve", "receive", 1},
		{"abc", "ca", 3}, {strings.Repeat("a", 10<<10), "a", 4},
	} {
		if got := analysis.Edits(c.a, c.b, 3); got != c.want {
			t.Errorf("%.20q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func alignment(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	x, y := len(a)-1, len(b)-1
	changed := 1
	if a[x] == b[y] {
		changed = 0
	}
	n := min(alignment(a[:x], b[:y])+changed, alignment(a[:x], b)+1, alignment(a, b[:y])+1)
	if x > 0 && y > 0 && a[x] == b[y-1] && a[x-1] == b[y] {
		n = min(n, alignment(a[:x-1], b[:y-1])+1)
	}
	return n
}

// A term with endings yields the words that people write.
func TestWithEndings(t *testing.T) {
	for term, words := range map[string]string{
		"payment": "payments", "instal": "installation installed installs", "run": "running runs", "configur": "configuration configured",
	} {
		for _, word := range strings.Fields(words) {
			if !slices.Contains(slices.Collect(analysis.WithEndings(term)), word) {
				t.Errorf("%q has no %q", term, word)
			}
		}
	}
	for range analysis.WithEndings("") { // the empty term has no last letter
		break
	}
}

// Contractions are stop words without their apostrophe, too.
func TestContractionsWithoutApostrophe(t *testing.T) {
	if terms := analysis.Terms("whats hows dont doesnt youre thats"); terms != nil {
		t.Errorf("%q", terms)
	}
}

// Terms of plain words know the word; identifiers, their parts and pairs of characters do not.
func TestQuestionWords(t *testing.T) {
	var got []string
	for _, term := range analysis.Question("Which Paymnets use PAY-4021, get_name and 年假?") {
		got = append(got, term.Text+":"+term.Word)
	}
	want := "paymnet:Paymnets use:use pay:PAY 4021:4021 pay4021: pay-4021: name: get_name: 年假:"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAlphabetic(t *testing.T) {
	for term, want := range map[string]bool{
		"payment": true, "kündigung": true, "отпуск": true, "": false, "e0382": false, "don't": false, "get_name": false, "年假": false, "3": false,
	} {
		if got := analysis.Alphabetic(term); got != want {
			t.Errorf("%q: %v", term, got)
		}
	}
}

func TestPair(t *testing.T) {
	if a, b, ok := analysis.Pair("年假"); a != '年' || b != '假' || !ok {
		t.Errorf("%q %q %v", a, b, ok)
	}
	for _, term := range []string{"", "年", "ab", "payment", "отпуск", "年假期"} {
		if _, _, ok := analysis.Pair(term); ok {
			t.Errorf("%q: %v", term, ok)
		}
	}
}
