//go:build unix && !sidenote_debug

package server

import "testing"

// A rewrite whose lookups are cached allocates little. (The debug build counts it anew.)
func TestWarmRewriteAllocatesLittle(t *testing.T) {
	again := warm(t, demoStack(t), 20<<10)
	if n := testing.AllocsPerRun(100, again); n > 10 {
		t.Errorf("%v allocations", n)
	}
}
