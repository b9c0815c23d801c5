package model_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// words counts words, so that a reader can check sums by eye.
type words struct{}

func (words) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

// question is a request of nine tokens (words), with more members.
func question(t *testing.T, more string) *chat.Request {
	t.Helper()
	r, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The reserve for the answer is the number of choices times the request's limit, or
// else the policy's or the model's length.
func TestReservedOutput(t *testing.T) {
	for _, c := range []struct {
		more   string
		model  model.Model
		policy int
		want   int
	}{
		{``, model.Model{}, 0, 4096},
		{``, model.Model{Window: 8192}, 0, 2048},
		{``, model.Model{Window: 400_000, DefaultOutput: 25_000}, 0, 25_000},
		{``, model.Model{Window: 128_000, MaxOutput: 1_000}, 0, 1_000},
		{``, model.Model{Window: 8192, DefaultOutput: 25_000}, 3000, 3000},
		{`,"max_tokens":100`, model.Model{}, 3000, 100},
		{`,"max_completion_tokens":200,"max_tokens":100`, model.Model{}, 0, 200},
		{`,"max_tokens":1e2,"n":3`, model.Model{}, 0, 300},
		{`,"max_tokens":100,"best_of":4,"n":2`, model.Model{}, 0, 400},
		{`,"n":2`, model.Model{}, 50, 100},
		{`,"max_tokens":"100"`, model.Model{}, 0, 100},
		{`,"max_tokens":-5,"n":0`, model.Model{}, 0, 4096},
		{`,"max_tokens":1.5,"n":"x"`, model.Model{}, 0, 4096},
		{`,"max_tokens":null,"n":null`, model.Model{}, 0, 4096},
		{`,"max_tokens":1e30,"n":1e30`, model.Model{}, 0, 1<<31 - 1},
	} {
		if got := c.model.Reserved(question(t, c.more), c.policy); got != c.want {
			t.Errorf("%s, window %d: %d tokens reserved, want %d", c.more, c.model.Window, got, c.want)
		}
	}
}

// A request is counted only if its length does not show that it fits.
func TestMeasure(t *testing.T) {
	r := question(t, `,"max_tokens":100`)
	for _, c := range []struct {
		window int
		limits model.Limits
		check  model.WindowCheck
		room   int
	}{
		{0, model.Limits{ContextTokens: 100}, model.CheckUnknown, 0},
		{0, model.Limits{ContextTokens: 100, CountWhole: true}, model.CheckUnknown, 0},
		{4000, model.Limits{ContextTokens: 100}, model.CheckBound, 4000 - 100 - len(r.Body) - 512},
		{4000, model.Limits{ContextTokens: 100, CountWhole: true}, model.CheckCount, 4000 - 100 - 9},
		{200, model.Limits{ContextTokens: 100}, model.CheckCount, 200 - 100 - 9},
	} {
		m := model.Model{Window: c.window, Counter: words{}}
		w := m.Measure(r, (&model.CostCounter{}).Of(r), c.limits)
		if w.Check != c.check || w.Room != c.room || w.Limits != (c.window > 0 && c.room < m.Allowed(c.limits.ContextTokens)) {
			t.Errorf("window %d, %+v: %+v", c.window, c.limits, w)
		}
		if counted := w.Cost != nil; counted != (c.limits.CountWhole || c.check == model.CheckCount) {
			t.Errorf("window %d, %+v: counted %v", c.window, c.limits, counted)
		}
	}
}

// Counted returns the largest count for which no more than a budget is billed.
func TestBilledCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := model.Model{Estimated: rapid.Bool().Draw(t, "estimated")}
		if rapid.Bool().Draw(t, "learnt") {
			m.Calibration = model.CalibrationValue{RatioUpper: rapid.Float64Range(0.5, 4).Draw(t, "ratio")}
		}
		budget := rapid.IntRange(0, 1<<20).Draw(t, "budget")
		n := m.Counted(budget)
		if m.Billed(n) > budget || m.Billed(n+1) < budget {
			t.Errorf("%d counted for a budget of %d: %d billed, %d for one more", n, budget, m.Billed(n), m.Billed(n+1))
		}
	})
}
