package model_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/model"
)

// merge exchanges a replica's samples with the store's.
func merge(tr *model.Tracker, stored []byte) []byte {
	merged, changed := tr.Merge(gpt, stored)
	if changed {
		return merged
	}
	return stored
}

func TestMerge(t *testing.T) {
	one, two := model.NewTracker(), model.NewTracker()
	repeat(t, one, 30, 1000, 1100)
	repeat(t, two, 1, 1000, 1300)
	stored := merge(two, merge(one, nil))
	if e := two.All()[0]; e.Samples != 31 || e.Value.Offset != 100 {
		t.Errorf("%+v", e)
	}
	again, changed := two.Merge(gpt, stored)
	if changed || !bytes.Equal(again, stored) {
		t.Error("the same thing merged twice is a change")
	}
	// Of more samples than fit into a ring, the newest stay: this process's new ones.
	repeat(t, one, 60, 1000, 1200)
	merge(two, merge(one, stored))
	if e := two.All()[0]; e.Samples != 64 || e.Value.Offset != 200 {
		t.Errorf("%+v", e)
	}
}

// Replicas that observe and merge in any order have the same samples once each has merged after
// the last change, even if writes were lost or the store lost its data.
func TestReplicasConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := []*model.Tracker{model.NewTracker(), model.NewTracker()}
		var stored []byte
		for _, tr := range replicas {
			repeat(t, tr, rapid.IntRange(1, 80).Draw(t, "first"), 1000, rapid.IntRange(900, 1300).Draw(t, "billed"))
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			tr := replicas[rapid.IntRange(0, 1).Draw(t, "replica")]
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				repeat(t, tr, rapid.IntRange(1, 20).Draw(t, "answers"), rapid.IntRange(150, 2000).Draw(t, "counted"), rapid.IntRange(900, 1200).Draw(t, "billed"))
			case 2:
				stored = merge(tr, stored)
			case 3:
				if _, changed := tr.Merge(gpt, stored); changed && rapid.Bool().Draw(t, "noticed") {
					tr.Unwritten(gpt)
				}
			case 4:
				stored = nil
			}
		}
		for range 2 {
			for _, tr := range replicas {
				stored = merge(tr, stored)
			}
		}
		if one, two := replicas[0].All()[0], replicas[1].All()[0]; one != two {
			t.Fatalf("%+v and %+v", one, two)
		}
		for i, tr := range replicas {
			if again, changed := tr.Merge(gpt, stored); changed {
				t.Fatalf("replica %d: %x, then %x", i, stored, again)
			}
		}
	})
}

// If writing fails, this process still uses its observations, and writes them when that is
// possible again.
func TestUnwritten(t *testing.T) {
	tr, other := model.NewTracker(), model.NewTracker()
	repeat(t, other, 64, 1000, 1500)
	stored := merge(other, nil)
	tr.Unwritten(gpt) // there was nothing to write
	for range 60 {
		repeat(t, tr, 1, 1000, 1100)
		tr.Merge(gpt, stored)
		tr.Unwritten(gpt)
	}
	if v := tr.Correction(gpt); v.Offset != 100 {
		t.Errorf("%+v", v)
	}
	stored = merge(tr, stored)
	if merge(other, stored); other.Correction(gpt) != tr.Correction(gpt) || other.Correction(gpt).Offset != 100 {
		t.Errorf("%+v and %+v", other.Correction(gpt), tr.Correction(gpt))
	}
	if _, changed := tr.Merge(gpt, stored); changed {
		t.Error("changed")
	}
}

// A store that loses data, or holds fewer samples than this process, removes nothing here.
func TestMergeKeepsWhatItHas(t *testing.T) {
	for name, shared := range map[string]func() []byte{
		"nothing":         func() []byte { return nil },
		"empty":           func() []byte { return []byte{} },
		"garbage":         func() []byte { return []byte("hello, world: this is not for you") },
		"another version": func() []byte { return append([]byte{2}, model.Encode(model.CalibrationValue{}, 1000, 1100)[1:]...) },
		"cut":             func() []byte { b := model.Encode(model.CalibrationValue{}, 1000, 1100); return b[:len(b)-1] },
		"absurd":          func() []byte { return model.Encode(model.CalibrationValue{}, 1000, 90_000_000, 1000, 0) },
	} {
		tr := model.NewTracker()
		repeat(t, tr, 40, 1000, 1100)
		before := tr.All()[0]
		tr.Merge(gpt, nil)
		merged, changed := tr.Merge(gpt, shared())
		if after := tr.All()[0]; after != before || !changed {
			t.Errorf("%s: %+v, then %+v, %v", name, before, after, changed)
		}
		// The next write contains everything again.
		fresh := model.NewTracker()
		repeat(t, fresh, 1, 1000, 1100)
		if fresh.Merge(gpt, merged); fresh.All()[0].Samples != 41 {
			t.Errorf("%s: %+v", name, fresh.All())
		}
	}
}

// Another process's value is adopted only if it is close to that of the samples.
func TestForeignValue(t *testing.T) {
	samples := slices.Repeat([]int{1000, 1100}, 40)
	honest := model.ValueOf(1000, slices.Repeat([]int{1100}, 41)...)
	near := model.CalibrationValue{Ratio: 1.102, RatioUpper: 1.12, Offset: 102, OffsetUpper: 102}
	for name, c := range map[string]struct{ shared, want model.CalibrationValue }{
		"none":        {model.CalibrationValue{}, honest},
		"near":        {near, near},
		"far":         {model.CalibrationValue{Ratio: 2, RatioUpper: 2.02, Offset: 100, OffsetUpper: 100}, honest},
		"a low bound": {model.CalibrationValue{Ratio: 1.102, RatioUpper: 1.1, Offset: 100, OffsetUpper: 100}, honest},
		"no number":   {model.CalibrationValue{Ratio: math.NaN(), RatioUpper: math.NaN(), Offset: 100, OffsetUpper: 100}, honest},
		"infinite":    {model.CalibrationValue{Ratio: 1.1, RatioUpper: math.Inf(1), Offset: 100, OffsetUpper: 100}, honest},
		"no bound":    {model.CalibrationValue{Ratio: 1, Offset: 100, OffsetUpper: 100}, honest},
		"far offsets": {model.CalibrationValue{Ratio: 1.1, RatioUpper: 1.12, Offset: 100, OffsetUpper: 200}, honest},
	} {
		tr := model.NewTracker()
		repeat(t, tr, 1, 1000, 1100)
		tr.Merge(gpt, model.Encode(c.shared, samples...))
		if got := tr.Correction(gpt); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Whatever a store returns, nothing panics, the current value is valid, and the result of merging
// can be decoded again.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(nil), 1100)
	f.Add(model.Encode(model.CalibrationValue{Ratio: 1.1, RatioUpper: 1.2, Offset: 1, OffsetUpper: 2}, 1000, 1100, 2000, 2300), 1300)
	f.Add(bytes.Repeat([]byte{1}, 200), 1)
	f.Add(append(model.Encode(model.CalibrationValue{}), bytes.Repeat([]byte{0xff}, 30)...), 1)
	f.Fuzz(func(t *testing.T, shared []byte, billed int) {
		one, two := model.NewTracker(), model.NewTracker()
		for _, tr := range []*model.Tracker{one, two} {
			tr.Observe(gpt, 1000, billed)
			tr.Observe(gpt, 1000, 1100)
		}
		merged, _ := one.Merge(gpt, shared)
		if e := one.All()[0]; e.Samples < 1 || e.Samples > 64 {
			t.Fatalf("%+v", e)
		}
		if v := one.Correction(gpt); v != (model.CalibrationValue{}) && !(v.Ratio >= 0.5 && v.Ratio <= 4 && v.RatioUpper <= 4 && v.Offset <= v.OffsetUpper) {
			t.Fatalf("%+v", v)
		}
		if again, changed := one.Merge(gpt, merged); changed || !bytes.Equal(again, merged) {
			t.Fatalf("%x, then %x", merged, again)
		}
		stored := merge(one, merge(two, merged))
		if merge(two, stored); one.All()[0] != two.All()[0] {
			t.Fatalf("%+v and %+v", one.All(), two.All())
		}
	})
}
