//go:build !race

package tokens_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/tokens"
)

// Counting does not allocate once its tables have grown. (With the race detector a sync.Pool
// drops its contents.)
func TestCountingDoesNotAllocate(t *testing.T) {
	texts := map[string]string{
		"prose": prose(8<<10, 5), "Chinese": strings.Repeat("敏捷的棕色狐狸，跳过了懒狗。", 100), "numbers": strings.Repeat("0123456789 ", 500),
		"a run": strings.Repeat("a", 20_000), "dots": strings.Repeat(".", 20_000), "bad bytes": strings.Repeat("a\xff ", 1000),
	}
	cache, many := tokens.NewCache(1), []byte(prose(8<<10, 5))
	if got := testing.AllocsPerRun(50, func() { cache.Key(many) }); got > 0 {
		t.Errorf("Key makes %v allocations", got)
	}
	ids := make([]int, 0, 64<<10)
	for _, name := range names {
		e := encoding(t, name)
		for what, text := range texts {
			n := 0
			calls := map[string]func(){
				"Count":     func() { e.Count(text[:len(text)-n]); n++ }, // a different text each time
				"CountUpTo": func() { e.CountUpTo(text, 1000) },
				"Append":    func() { ids = e.Append(ids[:0], text) },
				"Cut":       func() { tokens.Cut(e, text, 700) },
			}
			if what == "bad bytes" { // replacing invalid bytes needs memory
				delete(calls, "Append")
			}
			for call, do := range calls {
				if got := testing.AllocsPerRun(50, do); got > 0 {
					t.Errorf("%s: %s of %s makes %v allocations", name, call, what, got)
				}
			}
		}
	}
}
