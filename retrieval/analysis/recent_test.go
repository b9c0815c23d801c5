package analysis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
)

// Cached terms are the same as fresh ones, with concurrent use and when slots are replaced.
func TestRecent(t *testing.T) {
	var recent analysis.Recent
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 3000 {
				text := fmt.Sprintf("question %d about Leaves leaves%c of E%d", i%1500, 'a'+i%26, i)
				if i%100 == 0 {
					text = strings.Repeat(text+" ", 300)
				}
				if got, want := recent.Terms(text), analysis.Terms(text); !slices.Equal(got, want) {
					t.Errorf("%.60q: got %q, want %q", text, got, want)
				}
				if got, want := recent.Question(nil, text), analysis.Question(text); !slices.Equal(got, want) {
					t.Errorf("%.60q: got %q, want %q", text, got, want)
				}
			}
		})
	}
	wg.Wait()
}

// A text has terms unless it is empty or consists of stop words.
func TestHasTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"what", "Is", "IT", "it", "the", "leaves", "--no-edit", "C++", "x", "3.12.1", "isn’t", "假", ".", "?", strings.Repeat("d", 65), "a_b", "ok",
		}), 0, 6).Draw(t, "words"), rapid.SampledFrom([]string{" ", "/", "-"}).Draw(t, "between"))
		var recent analysis.Recent
		if got, want := recent.HasTerms(text), len(analysis.Terms(text)) > 0; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}

// BenchmarkQuestion analyses new questions, with and without a Recent that knows their words.
func BenchmarkQuestion(b *testing.B) {
	for name, recent := range map[string]*analysis.Recent{"new": nil, "known": {}} {
		b.Run(name, func(b *testing.B) {
			var terms []analysis.Term
			b.ReportAllocs()
			for b.Loop() {
				terms = recent.Question(terms[:0], "How many weeks of parental leave do you get for adopted children?")
			}
		})
	}
}
