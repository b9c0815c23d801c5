package analysis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval/analysis"
)

// What is remembered is what would be found anew, whoever asks at the same time
// and whatever took a text's place in between.
func TestRecent(t *testing.T) {
	var recent analysis.Recent
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 3000 {
				text := fmt.Sprintf("question %d about leaves", i%1500)
				if i%100 == 0 {
					text = strings.Repeat(text+" ", 300)
				}
				if got, want := recent.Terms(text), analysis.Terms(text); !slices.Equal(got, want) {
					t.Errorf("%.60q: got %q, want %q", text, got, want)
				}
			}
		})
	}
	wg.Wait()
}
