package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/model"
)

var gpt = model.CalibrationKey{Upstream: "openai", Row: "gpt-5*", Name: "gpt-5-mini"}

// repeat observes the same answer n times.
func repeat(t interface{ Fatalf(string, ...any) }, tr *model.Tracker, n, counted, billed int) {
	for range n {
		if !tr.Observe(gpt, counted, billed) {
			t.Fatalf("%d billed for %d is absurd", billed, counted)
		}
	}
}

func TestValue(t *testing.T) {
	value := func(ratio, upper float64, offset, offsetUpper int) model.CalibrationValue {
		return model.CalibrationValue{Ratio: ratio, RatioUpper: upper, Offset: offset, OffsetUpper: offsetUpper}
	}
	for name, c := range map[string]struct {
		samples [][2]int // counted, billed
		times   int
		want    model.CalibrationValue
	}{
		"nothing":                 {},
		"too few":                 {samples: [][2]int{{1000, 1100}}, times: 7},
		"eight":                   {samples: [][2]int{{1000, 1100}}, times: 8, want: value(1.1, 1.1*1.01, 100, 100)},
		"small ones have no rate": {samples: [][2]int{{199, 219}}, times: 8, want: value(1, 0, 20, 20)},
		"few large ones neither":  {samples: [][2]int{{100, 110}, {200, 210}}, times: 7, want: value(1, 0, 10, 10)},
		"less":                    {samples: [][2]int{{1000, 900}}, times: 8, want: value(0.9, 1, -100, -100)},
		// The median is 1100 and all deviate by 100: 3 × 1.4826 × 100 = 444.8.
		"spread":      {samples: [][2]int{{1000, 1000}, {1000, 1200}}, times: 8, want: value(1.1, 1.54478, 100, 545)},
		"clamped":     {samples: [][2]int{{1000, 7000}}, times: 8, want: value(4, 4, 6000, 6000)},
		"clamped low": {samples: [][2]int{{1000, 200}}, times: 8, want: value(0.5, 1, -800, -800)},
	} {
		tr := model.NewTracker()
		for range c.times {
			for _, s := range c.samples {
				repeat(t, tr, 1, s[0], s[1])
			}
		}
		got := tr.Correction(gpt)
		if c.want.RatioUpper != 0 && abs(got.RatioUpper-c.want.RatioUpper) < 1e-9 {
			got.RatioUpper = c.want.RatioUpper
		}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func abs(f float64) float64 { return max(f, -f) }

func TestAbsurd(t *testing.T) {
	for _, c := range []struct {
		counted, billed int
		taken           bool
	}{
		{0, 10, false},
		{-1, 10, false},
		{10, 0, false},
		{10, -5, false},
		{1, 1, true},
		{8, 1, true},
		{9, 1, false},
		{1, 8 + 4096, true},
		{1, 8 + 4097, false},
		{100_000_000, 100_000_000, true},
		{100_000_000, 100_000_001, false},
		{1 << 62, 100_000_000, false},
	} {
		tr := model.NewTracker()
		if got := tr.Observe(gpt, c.counted, c.billed); got != c.taken || len(tr.All()) != map[bool]int{true: 1}[c.taken] {
			t.Errorf("%d counted, %d billed: %v, %+v", c.counted, c.billed, got, tr.All())
		}
	}
}

// If fewer than half of the answers are outliers, the medians stay within the range of the
// others, and the bounds stay within what the others could yield.
func TestFewerThanHalfAreWild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := model.NewTracker()
		counted := rapid.IntRange(200, 100_000).Draw(t, "counted")
		honest := rapid.SliceOfN(rapid.IntRange(counted*9/10, counted*12/10), 33, 64).Draw(t, "honest")
		samples := slices.Clone(honest)
		for len(samples) < 64 {
			samples = append(samples, rapid.IntRange((counted+7)/8, 8*counted+4096).Draw(t, "wild"))
		}
		for _, billed := range rapid.Permutation(samples).Draw(t, "order") {
			repeat(t, tr, 1, counted, billed)
		}
		v := tr.Correction(gpt)
		least, most := slices.Min(honest), slices.Max(honest)
		// The current value may differ from the median by less than a step.
		width := float64(most - least)
		slack := max(2, 0.02*float64(counted)*1.2, 4.4478*width/4) + 1
		if low, high := float64(least-counted)-slack, float64(most-counted)+slack; float64(v.Offset) < low || float64(v.Offset) > high {
			t.Fatalf("%+v: the honest ones are %d to %d of %d", v, least, most, counted)
		}
		if billed := v.Ratio * float64(counted); billed < float64(least)-slack || billed > float64(most)+slack {
			t.Fatalf("%+v: the honest ones are %d to %d of %d", v, least, most, counted)
		}
		if v.OffsetUpper < v.Offset || float64(v.OffsetUpper-v.Offset) > 2*(4.4478*width+slack) {
			t.Fatalf("%+v: the honest ones are %d to %d of %d", v, least, most, counted)
		}
	})
}

// The value computed from the samples alone is within the range of the honest ones.
func TestMediansOfASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		honest := rapid.SliceOfN(rapid.IntRange(900, 1200), 33, 64).Draw(t, "honest")
		samples := slices.Clone(honest)
		for len(samples) < 64 {
			samples = append(samples, rapid.IntRange(125, 12096).Draw(t, "wild"))
		}
		v := model.ValueOf(1000, samples...)
		least, most := slices.Min(honest), slices.Max(honest)
		if v.Offset < least-1000 || v.Offset > most-1000 || v.Ratio < float64(least)/1000 || v.Ratio > float64(most)/1000 {
			t.Fatalf("%+v: the honest ones are %d to %d", v, least, most)
		}
		if v.RatioUpper < max(1, v.Ratio*1.01) && v.RatioUpper < 4 || v.Offset > v.OffsetUpper {
			t.Fatalf("%+v", v)
		}
	})
}

// A small change of the samples changes nothing, a large one does. Which changes of wide bounds
// are small depends on their width.
func TestHysteresis(t *testing.T) {
	narrow := model.CalibrationValue{Ratio: 1.1, RatioUpper: 1.12, Offset: 100, OffsetUpper: 102}
	wide := model.CalibrationValue{Ratio: 1.1, RatioUpper: 1.5, Offset: 100, OffsetUpper: 500}
	none := model.CalibrationValue{Ratio: 1, Offset: 10, OffsetUpper: 10}
	with := func(v model.CalibrationValue, ratio, upper float64, offset, offsetUpper int) model.CalibrationValue {
		return model.CalibrationValue{Ratio: v.Ratio + ratio, RatioUpper: v.RatioUpper + upper, Offset: v.Offset + offset, OffsetUpper: v.OffsetUpper + offsetUpper}
	}
	for name, c := range map[string]struct {
		before, now model.CalibrationValue
		stays       bool
	}{
		"the same":              {narrow, narrow, true},
		"two tokens":            {narrow, with(narrow, 0, 0, 2, 2), true},
		"two fewer":             {narrow, with(narrow, 0, 0, -2, -2), true},
		"three tokens":          {narrow, with(narrow, 0, 0, 3, 3), false},
		"three of the bound":    {narrow, with(narrow, 0, 0, 0, 3), false},
		"three fewer":           {narrow, with(narrow, 0, 0, -3, 0), false},
		"under two percent":     {narrow, with(narrow, 0.021, 0.021, 0, 0), true},
		"over two percent":      {narrow, with(narrow, 0.025, 0.025, 0, 0), false},
		"of the bound":          {narrow, with(narrow, 0, 0.025, 0, 0), false},
		"a fifth of wide ones":  {wide, with(wide, 0.08, 0.08, 80, 80), true},
		"more than a quarter":   {wide, with(wide, 0, 0, 0, 150), false},
		"wide ones get narrow":  {wide, narrow, false},
		"a ratio appears":       {none, with(none, 0, 1.01, 0, 0), false},
		"a ratio goes":          {with(none, 0, 1.01, 0, 0), none, false},
		"a value appears":       {model.CalibrationValue{}, none, false},
		"two of one without":    {none, with(none, 0, 0, 2, 2), true},
		"a third without ratio": {none, with(none, 0, 0, 3, 3), false},
	} {
		if got := model.Near(c.before, c.now); got != c.stays {
			t.Errorf("%s: %+v stays with %+v: %v", name, c.before, c.now, got)
		}
	}
}

// The current value stays exactly the same while answers differ by a token or two, and follows
// when they differ more.
func TestInForce(t *testing.T) {
	tr := model.NewTracker()
	repeat(t, tr, 64, 1000, 1100)
	before := tr.Correction(gpt)
	repeat(t, tr, 31, 1000, 4000)
	if after := tr.Correction(gpt); after != before {
		t.Errorf("31 wild answers of 64: %+v, then %+v", before, after)
	}
	repeat(t, tr, 64, 1000, 1300)
	if after := tr.Correction(gpt); after.Offset != 300 || after.OffsetUpper != 300 {
		t.Errorf("%+v", after)
	}
}

// Answers with a steady scatter almost never change the value: a few of many thousand do,
// although each moves the median a little.
func TestSteady(t *testing.T) {
	tr := model.NewTracker()
	random := rand.New(rand.NewPCG(1, 2))
	observe := func() model.CalibrationValue {
		counted := 300 + random.IntN(8000)
		tr.Observe(gpt, counted, int(float64(counted)*(1.08+0.02*random.NormFloat64()))+12)
		return tr.Correction(gpt)
	}
	for range 64 {
		observe()
	}
	const answers = 5000
	changes, last := 0, tr.Correction(gpt)
	for range answers {
		v := observe()
		if v != last {
			changes++
		}
		last = v
	}
	if changes > answers/20 {
		t.Errorf("%d changes in %d answers", changes, answers)
	}
	if last.Ratio < 1.05 || last.Ratio > 1.12 || last.RatioUpper < last.Ratio || last.RatioUpper > 1.3 {
		t.Errorf("%+v", last)
	}
}

// Only the newest 64 samples count.
func TestRing(t *testing.T) {
	tr := model.NewTracker()
	repeat(t, tr, 1000, 1000, 3000)
	repeat(t, tr, 64, 1000, 1100)
	all := tr.All()
	if len(all) != 1 || all[0].Samples != 64 || all[0].Value.Offset != 100 || all[0].Value.OffsetUpper != 100 {
		t.Errorf("%+v", all)
	}
}

// Names beyond the 512th, and long ones, are pooled by upstream and row.
func TestBounded(t *testing.T) {
	tr := model.NewTracker()
	name := func(n string) model.CalibrationKey { return model.CalibrationKey{Upstream: "u", Row: "r", Name: n} }
	long := strings.Repeat("x", 129)
	observe := func(k model.CalibrationKey, billed int) {
		for range 8 {
			tr.Observe(k, 1000, billed)
		}
	}
	observe(name(long), 1050)
	if tr.Correction(name("unseen")) != (model.CalibrationValue{}) || tr.Correction(name(long+"y")).Offset != 50 {
		t.Errorf("%+v", tr.All())
	}
	for i := range 512 {
		observe(name(fmt.Sprint(i)), 1100)
	}
	for i := range 1000 {
		observe(name(fmt.Sprint("late ", i)), 1200)
	}
	all := tr.All()
	if len(all) != 513 {
		t.Fatalf("%d keys", len(all))
	}
	if e := all[0]; e.Name != "" || e.Samples != 64 {
		t.Errorf("first %+v", e)
	}
	for k, offset := range map[model.CalibrationKey]int{name("0"): 100, name("511"): 100, name("late 7"): 200, name("never"): 200, name(strings.Repeat("y", 200)): 200, name(""): 200} {
		if got := tr.Correction(k).Offset; got != offset {
			t.Errorf("%s: %d, want %d", k.Name, got, offset)
		}
	}
	if got := tr.Correction(model.CalibrationKey{Upstream: "v", Row: "r", Name: "never"}); got != (model.CalibrationValue{}) {
		t.Errorf("another upstream: %+v", got)
	}
	if !slices.IsSortedFunc(all, func(a, b model.CalibrationEntry) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
}

// Of neither adds a key nor allocates.
func TestOfMakesNothing(t *testing.T) {
	tr := model.NewTracker()
	if got := tr.Correction(gpt); got != (model.CalibrationValue{}) || len(tr.All()) > 0 {
		t.Errorf("%+v, %+v", got, tr.All())
	}
	if merged, changed := tr.Merge(gpt, nil); merged != nil || changed || len(tr.All()) > 0 {
		t.Errorf("%v %v", merged, changed)
	}
}

func TestConcurrent(t *testing.T) {
	tr, other := model.NewTracker(), model.NewTracker()
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 2000 {
				k := model.CalibrationKey{Upstream: "u", Name: fmt.Sprint(i % 600)}
				tr.Observe(k, 1000, 1100+g)
				other.Observe(k, 1000, 1100)
				if v := tr.Correction(k); v != (model.CalibrationValue{}) && (v.Offset < 98 || v.Offset > 105) {
					t.Errorf("%+v", v)
				}
				if i%500 == 0 {
					tr.All()
					merged, _ := tr.Merge(k, nil)
					other.Merge(k, merged)
				}
			}
		})
	}
	group.Wait()
	if n := len(tr.All()); n != 513 {
		t.Errorf("%d keys", n)
	}
}

func BenchmarkOf(b *testing.B) {
	tr := model.NewTracker()
	for i := range 512 {
		for range 8 {
			tr.Observe(model.CalibrationKey{Upstream: gpt.Upstream, Row: gpt.Row, Name: fmt.Sprint("gpt-5-mini-", i)}, 1000, 1100)
		}
	}
	for name, k := range map[string]model.CalibrationKey{"known": tr.All()[100].CalibrationKey, "together": gpt} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tr.Correction(k)
			}
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	tr := model.NewTracker()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.Observe(gpt, 1000+i%977, 1100+i%1009)
	}
}
