package retrieval_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval"
)

var someExcluded = rapid.Custom(func(t *rapid.T) retrieval.Excluded {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "hr", "handbook/part-1/leave.md", "handbook/part-1/pay.md", strings.Repeat("long/", 20)}), rapid.String())
	number := rapid.OneOf(rapid.SampledFrom([]float64{0, 3.5, -1}), rapid.Float64(), rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.Int32().Draw(t, "units")) / (1 << 20) }))
	optional := func(name string) *float64 {
		if rapid.Bool().Draw(t, "no "+name) {
			return nil
		}
		return new(number.Draw(t, name))
	}
	x := retrieval.Excluded{
		Knowledge: text.Draw(t, "knowledge"), Doc: text.Draw(t, "doc"), Chunk: rapid.Int().Draw(t, "chunk"), Name: text.Draw(t, "name"), Section: text.Draw(t, "section"),
		Score: number.Draw(t, "score"), Relevance: number.Draw(t, "relevance"), Strength: rapid.Float32Range(0, 9).Draw(t, "strength"), RerankScore: optional("rerank"), GradeScore: optional("grade"),
		Reason: rapid.SampledFrom([]retrieval.ExcludeReason{retrieval.ExcludedDup, retrieval.ExcludedTopK, retrieval.ExcludedScore, "other"}).Draw(t, "reason"),
	}
	if rapid.Bool().Draw(t, "by floor") {
		x.Relevance = retrieval.Relevance(x.Score, 3)
	}
	if x.Arm = rapid.SampledFrom([]retrieval.Arm{retrieval.ArmNone, retrieval.ArmWords, retrieval.ArmVector}).Draw(t, "arm"); x.Arm != retrieval.ArmNone {
		x.ByArm = retrieval.ArmScores{Words: rapid.Float32().Draw(t, "words"), Vector: rapid.Float32().Draw(t, "vector")}
	}
	if rapid.Bool().Draw(t, "kept") {
		x.At = retrieval.Place{Kept: true, Segment: rapid.IntMin(0).Draw(t, "segment"), Text: rapid.IntMin(0).Draw(t, "text")}
	}
	if x.Reason == retrieval.ExcludedScore {
		x.MinScore = number.Draw(t, "least")
	} else {
		x.Detail = text.Draw(t, "detail")
	}
	return x
})

// Excluded candidates are decoded unchanged; a cached list lacks only the names that an engine
// has.
func TestFallen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(someExcluded, 0, 200).Draw(t, "excluded")
		f := retrieval.NewExcludedList(want)
		if diff := gocmp.Diff(want, append([]retrieval.Excluded{}, f.List()...)); diff != "" || f.Len() != len(want) {
			t.Fatalf("%d (-want +got):\n%s", f.Len(), diff)
		}
		floor := rapid.SampledFrom([]float64{0, 3}).Draw(t, "floor")
		kept, ok := retrieval.ReadExcludedList(f.Packed(floor), floor)
		for i := range want {
			if want[i].At.Kept {
				want[i].Name, want[i].Section = "", ""
			}
		}
		if diff := gocmp.Diff(want, append([]retrieval.Excluded{}, kept.List()...)); diff != "" || !ok {
			t.Fatalf("kept: %t (-want +got):\n%s", ok, diff)
		}
		for _, reason := range []retrieval.ExcludeReason{"", retrieval.ExcludedDup, retrieval.ExcludedTopK, retrieval.ExcludedScore, retrieval.ExcludedGrade} {
			n := 0
			for _, x := range want {
				if x.Reason == reason || reason == "" && x.Reason == "other" {
					n++
				}
			}
			if f.Count(reason) != n || kept.Count(reason) != n {
				t.Errorf("%d and %d fell for %q, want %d", f.Count(reason), kept.Count(reason), reason, n)
			}
		}
		if !f.Equal(retrieval.NewExcludedList(f.List())) || len(want) > 0 && f.Equal(retrieval.NewExcludedList(want[1:])) {
			t.Error("equal is not what is")
		}
	})
}

// A typical candidate takes about 35 bytes, most of them its id.
func TestFallenIsSmall(t *testing.T) {
	var list []retrieval.Excluded
	for i := range 44 {
		list = append(list, retrieval.Excluded{
			Knowledge: "handbook", Doc: fmt.Sprintf("handbook/part-%02d/page-number-%03d.md", i%20, i), Chunk: i % 3, Score: float64(9<<20-i*12345) / (1 << 20),
			Reason: retrieval.ExcludedTopK, Detail: "after the best 6", At: retrieval.Place{Kept: true, Text: 1000 * i},
		})
	}
	if each := retrieval.NewExcludedList(list).Bytes() / len(list); each > 40 {
		t.Errorf("%d bytes each", each)
	}
}

// Arbitrary bytes from a cache never cause a panic, and decode to a bounded size.
func FuzzReadFallen(f *testing.F) {
	f.Add(retrieval.NewExcludedList([]retrieval.Excluded{{Knowledge: "hr", Doc: "a.md", Reason: retrieval.ExcludedTopK}, {Knowledge: "hr", Doc: "b.md", Reason: retrieval.ExcludedScore, MinScore: 1, RerankScore: new(.5)}}).Packed(0))
	f.Add("\x00\x02hr\x01")
	f.Add(strings.Repeat("\xff", 40))
	f.Fuzz(func(t *testing.T, list string) {
		excluded, ok := retrieval.ReadExcludedList(list, 3)
		if !ok {
			return
		}
		all := excluded.List()
		if len(all) != excluded.Len() || len(all) > len(list) {
			t.Fatalf("%d of %d, in %d bytes", len(all), excluded.Len(), len(list))
		}
		if again, ok := retrieval.ReadExcludedList(retrieval.NewExcludedList(all).Packed(3), 3); !ok || !again.Equal(excluded) {
			t.Error("not the same again")
		}
	})
}
