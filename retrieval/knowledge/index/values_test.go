package index_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
)

// attributeValues returns values that differ in kind only, are adjacent in order, or are special.
func attributeValues() []any {
	return []any{
		"", "a", "ab", "b", "\x00", "a\x00", "日", "\x05", "\U0010ffff", "1", "true",
		0.0, 1.0, -1.0, 0.5, -0.5, 1e300, -1e300, math.SmallestNonzeroFloat64, float64(1 << 53), math.MaxFloat64, -math.MaxFloat64, 3,
		true, false,
	}
}

func attributeKeys() []string { return []string{"k", "k\x00", "kk", "日", "�"} }

func drawSet(t *rapid.T) map[string]any {
	texts := slices.DeleteFunc(attributeValues(), func(v any) bool {
		_, is := v.(string)
		return !is
	})
	value := rapid.OneOf(
		rapid.SampledFrom(attributeValues()),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom(texts), 0, 3), func(list []any) any { return list }),
	)
	return rapid.MapOfN(rapid.SampledFrom(attributeKeys()), value, 0, 3).Draw(t, "attributes")
}

// drawFilter draws a filter, also with values and keys that no document can have.
func drawFilter(t *rapid.T, depth int) filter.Filter {
	kinds := []filter.Type{
		filter.Eq, filter.Ne, filter.Gt, filter.Gte, filter.Lt, filter.Lte,
		filter.In, filter.Nin, filter.Prefix, "unknown", filter.And, filter.Or,
	}
	if depth == 0 {
		kinds = kinds[:len(kinds)-2]
	}
	f := filter.Filter{Type: rapid.SampledFrom(kinds).Draw(t, "type")}
	if f.Type == filter.And || f.Type == filter.Or {
		for range rapid.IntRange(0, 3).Draw(t, "filters") {
			f.Filters = append(f.Filters, drawFilter(t, depth-1))
		}
		return f
	}
	f.Key = rapid.SampledFrom(append(attributeKeys(), "none", "\xff", "")).Draw(t, "key")
	value := rapid.SampledFrom(append(attributeValues(), math.Copysign(0, -1), math.NaN(), math.Inf(1), "\xff", filter.Claim("c"), nil))
	if rapid.Bool().Draw(t, "list") {
		f.Value = rapid.SliceOfN(value, 0, 3).Draw(t, "values")
	} else {
		f.Value = value.Draw(t, "value")
	}
	return f
}

// The value index of a segment chooses the same documents as Filter.Match on the attributes
// themselves, also after merges, and lists the right attributes.
func TestValuesChooseAsFiltersMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets := map[string]map[string]any{} // by document
		gone := map[int64]bool{}
		var segments []*index.Segment
		for i := range rapid.IntRange(1, 3).Draw(t, "segments") {
			documents := map[int64][]string{}
			for n := range rapid.IntRange(1, 8).Draw(t, "documents") {
				row, set := int64(10*i+n+1), drawSet(t)
				encoded, err := chunk.EncodeAttributes(set)
				if err != nil {
					t.Fatal(err)
				}
				id := fmt.Sprintf("d%03d", row)
				documents[row] = []string{id, "", encoded, "", "text"}
				if gone[row] = rapid.IntRange(0, 4).Draw(t, "gone") == 0; !gone[row] {
					if sets[id], err = chunk.DecodeAttributes(encoded); err != nil {
						t.Fatal(err)
					}
				}
			}
			s, err := index.Open("part", write(t, documents), nil)
			if err != nil {
				t.Fatal(err)
			}
			segments = append(segments, s)
		}
		merged, _, err := index.MergeWithout(gone, segments...)
		if err != nil {
			t.Fatal(err)
		}
		var parts index.Segments
		for _, s := range segments {
			parts = append(parts, s.Without(s.WithRows(gone), nil))
		}
		whole := index.Segments{merged.Without(nil, nil)}
		for range 10 {
			f := drawFilter(t, 2)
			for _, live := range []index.Segments{parts, whole} {
				for d := range live.InOrder() {
					for ref := range live.Texts(d) {
						allowed, all := live[ref.Segment].Allowed(&f)
						got, want := allowed.Has(ref.Text), f.Match(sets[live.Document(d).ID])
						if got != want || all && !want {
							t.Fatalf("%+v of %v: %v, all %v; want %v", f, sets[live.Document(d).ID], got, all, want)
						}
					}
				}
			}
		}
		if diff := cmp.Diff(summary(sets), byKey(parts.Attributes())); diff != "" {
			t.Fatalf("in parts (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(summary(sets), byKey(whole.Attributes())); diff != "" {
			t.Fatalf("merged (-want +got):\n%s", diff)
		}
	})
}

// summary counts the documents per key, and lists the types of its values.
func summary(sets map[string]map[string]any) map[string]string {
	documents, types := map[string]int{}, map[string][]string{}
	for _, set := range sets {
		for key, v := range set {
			kind := "string"
			switch v.(type) {
			case bool:
				kind = "boolean"
			case float64:
				kind = "number"
			case []string:
				kind = "list"
			}
			documents[key]++
			types[key] = append(types[key], kind)
		}
	}
	out := map[string]string{}
	for key, n := range documents {
		slices.Sort(types[key])
		out[key] = fmt.Sprint(n, slices.Compact(types[key]))
	}
	return out
}

func byKey(list []index.Attribute) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = fmt.Sprint(a.Documents, a.Types)
	}
	return out
}

// BenchmarkFirstFilter measures an uncached filter over 200,000 documents with distinct attributes
// (20,000 in plain runs): including opening the files, and after that.
func BenchmarkFirstFilter(b *testing.B) {
	records := 20_000
	if long() {
		records = 200_000
	}
	var images [][]byte
	w := index.Writer{Emit: func(image []byte, _ []int64) error {
		images = append(images, image)
		return nil
	}}
	for i := range records {
		encoded, err := chunk.EncodeAttributes(map[string]any{"number": i, "day": fmt.Sprintf("2024-%d", i), "tags": []string{"a", "b"}})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Add(index.OneText(int64(i+1), fmt.Sprintf("d%06d", i), encoded, "short")); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	open := func() (segments []*index.Segment) {
		for _, image := range images {
			s, err := index.Open("", image, nil)
			if err != nil {
				b.Fatal(err)
			}
			segments = append(segments, s)
		}
		return segments
	}
	choose := func(segments []*index.Segment, key string, v any) {
		for _, s := range segments {
			_, _ = s.Allowed(&filter.Filter{Type: filter.Lt, Key: key, Value: v})
		}
	}
	b.Run("opened", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			choose(open(), "number", float64(i))
		}
	})
	segments := open()
	b.Run("number", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			choose(segments, "number", float64(i%records))
		}
	})
	b.Run("text", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			choose(segments, "day", fmt.Sprintf("2024-%d", i%records))
		}
	})
}

func long() bool { return os.Getenv("SIDENOTE_LONG") != "" }
