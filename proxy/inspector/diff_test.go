package inspector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy/inspector"
)

// sides reconstructs both lists from the runs.
func sides(runs []inspector.LineRun[string]) (before, after []string) {
	for _, r := range runs {
		if r.Kind != inspector.Inserted {
			before = append(before, r.Lines...)
		}
		if r.Kind != inspector.Deleted {
			after = append(after, r.Lines...)
		}
	}
	return before, after
}

// For any input, both lists can be reconstructed from the result, no run is empty, and neighbours
// differ in kind.
func TestBothSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c", "{", "}"}), 0, 300)
		before, after := lines.Draw(t, "before"), lines.Draw(t, "after")
		runs := inspector.DiffLines(before, after)
		b, a := sides(runs)
		if !slices.Equal(b, before) || !slices.Equal(a, after) {
			t.Fatalf("%v", runs)
		}
		for i, r := range runs {
			if len(r.Lines) == 0 || i > 0 && (r.Kind == runs[i-1].Kind || runs[i-1].Kind == inspector.Inserted && r.Kind == inspector.Deleted) {
				t.Fatalf("%v", runs)
			}
		}
	})
}

// Exactly the inserted lines are new.
func TestInsertion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := 0
		lines := func(name string) (list []string) {
			for range rapid.IntRange(0, 50).Draw(t, name) {
				number++
				list = append(list, fmt.Sprint(number))
			}
			return list
		}
		head, added, tail := lines("head"), lines("added"), lines("tail")
		for _, r := range inspector.DiffLines(slices.Concat(head, tail), slices.Concat(head, added, tail)) {
			if r.Kind == inspector.Deleted || r.Kind == inspector.Inserted && !slices.Equal(r.Lines, added) {
				t.Fatalf("%v", r)
			}
		}
	})
}

// hostileLines returns pairs of texts of 64 KiB with as many lines as possible.
func hostileLines() map[string][2][]string {
	const n = 64 << 10
	lines := func(of func(i int) string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = of(i)
		}
		return list
	}
	return map[string][2][]string{
		"empty":    {lines(func(int) string { return "" }), lines(func(i int) string { return strings.Repeat("a", i%2) })},
		"two":      {lines(func(i int) string { return fmt.Sprint(i * i % 7 % 2) }), lines(func(i int) string { return fmt.Sprint(i * i % 11 % 2) })},
		"few":      {lines(func(i int) string { return fmt.Sprint(i * i % 97) }), lines(func(i int) string { return fmt.Sprint(i * i % 89) })},
		"disjoint": {lines(func(i int) string { return fmt.Sprint(i) }), lines(func(i int) string { return fmt.Sprint(-i - 1) })},
		"reversed": {lines(func(i int) string { return fmt.Sprint(i) }), lines(func(i int) string { return fmt.Sprint(n - i) })},
	}
}

// No text takes long. Each is tried several times, since the machine may be busy.
func TestHostileTextsAreFast(t *testing.T) {
	for name, of := range hostileLines() {
		best := time.Hour
		for range 5 {
			start := time.Now()
			before, after := sides(inspector.DiffLines(of[0], of[1]))
			best = min(best, time.Since(start))
			if !slices.Equal(before, of[0]) || !slices.Equal(after, of[1]) {
				t.Fatal(name)
			}
			if best <= time.Second {
				break
			}
		}
		if best > time.Second { // 2 to 20 ms in BenchmarkHostile; comparing all pairs of lines would take a minute
			t.Errorf("%s takes %v", name, best)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, of := range hostileLines() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				inspector.DiffLines(of[0], of[1])
			}
		})
	}
}
