package knowledgetest_test

import (
	"testing"

	"sidenote/retrieval/knowledge/knowledgetest"
)

// A judge is a test that notes whether it failed.
type judge struct {
	testing.TB
	failed bool
}

func (j *judge) Errorf(string, ...any) { j.failed = true }

// Linear tells linear work from quadratic work, also where that is cheap.
func TestLinear(t *testing.T) {
	sum := 0
	linear := func(n int) {
		for range 100 * n {
			sum++
		}
	}
	for name, c := range map[string]struct {
		work  func(n int)
		fails bool
	}{
		"linear":    {linear, false},
		"quadratic": {func(n int) { linear(n * n / 10_000) }, true},
		"in part":   {func(n int) { linear(n); linear(n * n / 10_000) }, true},
	} {
		j := &judge{TB: t}
		knowledgetest.Linear(j, name, 16_000, 32, c.work)
		if j.failed != c.fails {
			t.Errorf("%s: failed %v, want %v", name, j.failed, c.fails)
		}
	}
	if sum == 0 {
		t.Error("no work was done")
	}
}
