package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/retrieval"
)

// answer returns a result with every stored field set.
func answer() retrieval.Result {
	return retrieval.Result{
		Sources: []retrieval.Source{
			{Type: "rag", Knowledge: "docs", Doc: "leave.md", Chunk: 3, Name: "Leave policy", Section: "Parental leave",
				Text: "Every parent may take 16 weeks.", Before: "Before.", After: "After.", Sketch: strings.Repeat("\x00\xff", retrieval.SketchBytes/2), Tokens: 8, Score: 11.25},
			{Type: "rag", Knowledge: "faq", Doc: "ff\xff\x00.md", Score: -0.5, RerankScore: new(0.25), GradeScore: new(0.75), Grade: retrieval.GradeRelevant},
			{Type: "rag", Knowledge: "faq", Doc: "b.md", Grade: retrieval.GradeAmbiguous},
		},
		Excluded: retrieval.NewExcludedList([]retrieval.Excluded{
			{Knowledge: "docs", Doc: "old.md", Reason: retrieval.ExcludedDup, Detail: "duplicate of leave.md#3"},
			{Knowledge: "docs", Doc: "off.md", Score: 2, RerankScore: new(0.5), GradeScore: new(0.0), Reason: retrieval.ExcludedGrade, Detail: "irrelevant: 0 < 0.3"},
			{Knowledge: "docs", Doc: "far.md", Score: 1, RerankScore: new(0.0), Reason: retrieval.ExcludedScore, MinScore: 2.5},
		}),
		Bases:     question("").Bases,
		Floor:     3,
		Reason:    retrieval.ReasonNone,
		Retrieved: 50,
		Unique:    12,
	}
}

func TestValueFlippedBits(t *testing.T) {
	key := cache.NewKey(cache.Selected, question("q"))
	value := cache.Encode(key, answer())
	if got, err := cache.Decode(key, value); err != nil || cmp.Diff(answer(), got) != "" {
		t.Fatalf("intact value: %v\n%s", err, cmp.Diff(answer(), got))
	}
	for i := range value {
		for bit := range 8 {
			damaged := bytes.Clone(value)
			damaged[i] ^= 1 << bit
			if _, err := cache.Decode(key, damaged); err == nil {
				t.Errorf("bit %d of byte %d flipped: no mismatch", bit, i)
			}
		}
		if _, err := cache.Decode(key, value[:i]); err == nil {
			t.Errorf("cut to %d of %d bytes: no mismatch", i, len(value))
		}
	}
}

func TestValueMismatch(t *testing.T) {
	q, other := question("q"), question("q")
	other.Tenant = "rival"
	mine, theirs := cache.NewKey(cache.Selected, q), cache.NewKey(cache.Selected, other)
	value := cache.Encode(mine, answer())
	otherSchema := bytes.Clone(value)
	otherSchema[2]++
	for name, c := range map[string]struct {
		key   cache.Key
		value []byte
		want  cache.Mismatch
	}{
		"another tenant's":   {mine, cache.Encode(theirs, answer()), cache.MismatchTenant},
		"another question's": {cache.NewKey(cache.Selected, question("p")), value, cache.MismatchKey},
		"another kind's":     {cache.NewKey(cache.Candidates, q), value, cache.MismatchKey},
		"another schema":     {mine, otherSchema, cache.MismatchVersion},
		"another program's":  {mine, []byte(`{"sources":[]}`), cache.MismatchVersion},
		"empty":              {mine, []byte{}, cache.MismatchVersion},
		"cut":                {mine, value[:len(value)-1], cache.MismatchChecksum},
		"a byte too many":    {mine, append(bytes.Clone(value), 0), cache.MismatchChecksum},
		"twice":              {mine, append(bytes.Clone(value), value...), cache.MismatchChecksum},
		"zeros":              {mine, make([]byte, 1000), cache.MismatchVersion},
	} {
		_, err := cache.Decode(c.key, c.value)
		if got, ok := errors.AsType[cache.Mismatch](err); !ok || got != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// A valid checksum proves nothing about the rest.
func TestValueTamperedWith(t *testing.T) {
	key := cache.NewKey(cache.Selected, question("q"))
	value := cache.Encode(key, answer())
	const flags, digest, tenant = 3, 4, 36
	for i := range value[:len(value)-4] {
		tampered := bytes.Clone(value)
		tampered[i] ^= 1
		got, err := cache.Decode(key, cache.Resum(tampered))
		switch {
		case i <= flags && !errors.Is(err, cache.MismatchVersion),
			i >= digest && i < tenant && !errors.Is(err, cache.MismatchKey),
			i > tenant && i <= tenant+len("acme") && !errors.Is(err, cache.MismatchTenant),
			err == nil && cmp.Equal(answer(), got):
			t.Errorf("byte %d: got %v", i, err)
		}
	}
	body, err := cache.Body(key, value)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		if _, err := cache.Decode(key, cache.Seal(key, body[:i])); !errors.Is(err, cache.MismatchBody) {
			t.Errorf("body cut to %d of %d bytes: got %v", i, len(body), err)
		}
	}
	for name, body := range map[string][]byte{
		"a byte too many": append(bytes.Clone(body), 0),
		"a giant list":    {0xff, 0xff, 0xff, 0xff, 0x0f},
		"a giant number":  bytes.Repeat([]byte{0xff}, 11),
		"a giant string":  append([]byte{2, 0xff, 0xff, 0xff, 0x7f}, make([]byte, 20)...),
	} {
		if _, err := cache.Decode(key, cache.Seal(key, body)); !errors.Is(err, cache.MismatchBody) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for i := range 40 { // an envelope that ends early
		if _, err := cache.Decode(key, cache.Resum(value[:i+8])); err == nil {
			t.Errorf("%d bytes: no mismatch", i+8)
		}
	}
}

var someResult = rapid.Custom(func(t *rapid.T) retrieval.Result {
	text, number := rapid.String(), rapid.Int()
	score := rapid.Float64()
	source := rapid.Custom(func(t *rapid.T) retrieval.Source {
		if rapid.Bool().Draw(t, "kept") {
			s := retrieval.Source{
				Type: "rag", Knowledge: "docs", Doc: rapid.SampledFrom([]string{"a/b.md", "a/bc.md", "a", ""}).Draw(t, "doc"), Chunk: number.Draw(t, "chunk"),
				Score: float64(rapid.Int32().Draw(t, "score")) / (1 << 20), Relevance: rapid.SampledFrom([]float64{0, .25}).Draw(t, "relevance"), Strength: rapid.Float32Range(0, 9).Draw(t, "strength"),
				Arm: rapid.SampledFrom([]retrieval.Arm{retrieval.ArmNone, retrieval.ArmWords, retrieval.ArmVector}).Draw(t, "arm"),
				At:  retrieval.Place{Kept: true, Segment: rapid.IntMin(0).Draw(t, "segment"), Text: rapid.IntMin(0).Draw(t, "text")},
			}
			if s.Arm != retrieval.ArmNone {
				s.ByArm = retrieval.ArmScores{Words: rapid.Float32().Draw(t, "words"), Vector: rapid.Float32().Draw(t, "cosine")}
			}
			return s
		}
		return retrieval.Source{
			Sketch: rapid.SampledFrom([]string{"", "a sketch"}).Draw(t, "sketch"),
			Type:   text.Draw(t, "type"), Knowledge: text.Draw(t, "knowledge"), Doc: text.Draw(t, "doc"), Chunk: number.Draw(t, "chunk"),
			Name: text.Draw(t, "name"), Section: text.Draw(t, "section"), Text: text.Draw(t, "text"),
			Before: text.Draw(t, "before"), After: text.Draw(t, "after"), Tokens: number.Draw(t, "tokens"), Score: score.Draw(t, "score"),
		}
	})
	return retrieval.Result{
		Sources: optional(rapid.SliceOfN(source, 0, 9)).Draw(t, "sources"),
		Excluded: retrieval.NewExcludedList(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) retrieval.Excluded {
			s := source.Draw(t, "source")
			x := retrieval.Excluded{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Score: s.Score, Relevance: s.Relevance, Strength: s.Strength, Arm: s.Arm, ByArm: s.ByArm, At: s.At}
			if !s.At.Kept {
				x.Name, x.Section = s.Name, s.Section
			}
			if x.Reason = retrieval.ExcludedScore; rapid.Bool().Draw(t, "low") {
				x.MinScore = score.Draw(t, "least")
			} else {
				x.Reason, x.Detail = retrieval.ExcludeReason(text.Draw(t, "reason")), text.Draw(t, "detail")
			}
			return x
		}), 0, 3).Draw(t, "fallen")),
		Bases: optional(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) retrieval.Ref {
			return retrieval.Ref{Knowledge: text.Draw(t, "id"), Generation: text.Draw(t, "generation")}
		}), 0, 3)).Draw(t, "bases"),
		Floor: score.Draw(t, "floor"), Reason: retrieval.Reason(text.Draw(t, "reason")),
		Retrieved: number.Draw(t, "retrieved"), Unique: number.Draw(t, "unique"),
	}
})

// optional also draws nil lists, which differ from empty ones.
func optional[T any](g *rapid.Generator[[]T]) *rapid.Generator[[]T] {
	return rapid.OneOf(g, rapid.Just[[]T](nil))
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := question(rapid.String().Draw(t, "text"))
		q.Tenant = rapid.String().Draw(t, "tenant")
		key, want := cache.NewKey(cache.Selected, q), someResult.Draw(t, "result")
		got, err := cache.Decode(key, cache.Encode(key, want))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// FuzzDecode feeds bodies in intact envelopes, because random bytes alone would never reach the
// part that reads lists. Whatever is accepted means the same after it is encoded again.
func FuzzDecode(f *testing.F) {
	key := cache.NewKey(cache.Selected, question("q"))
	empty := len(cache.Encode(key, retrieval.Result{}))
	for _, r := range []retrieval.Result{{}, answer(), keeping().res, {Reason: retrieval.ReasonNoMatch, Bases: []retrieval.Ref{}}} {
		value := cache.Encode(key, r)
		f.Add(value)
		f.Add(value[len(value)-len(value)%empty:])
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(bytes.Repeat([]byte{0x80}, 30))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, value := range [][]byte{data, cache.Seal(key, data)} {
			got, err := cache.Decode(key, value)
			if err != nil {
				continue
			}
			written := cache.Encode(key, got)
			again, err := cache.Decode(key, written)
			if err != nil || !bytes.Equal(written, cache.Encode(key, again)) {
				t.Fatalf("accepted, but not the same again: %v", err)
			}
		}
	})
}

// six returns a result that fills a prompt: six sources of 1.6 KB.
func six() retrieval.Result {
	r := retrieval.Result{Bases: question("").Bases, Retrieved: 50, Unique: 20}
	for i := range 6 {
		r.Sources = append(r.Sources, retrieval.Source{
			Type: "rag", Knowledge: "docs", Doc: fmt.Sprintf("handbook/%d.md", i), Chunk: i, Name: "A title", Section: "A > B",
			Text: strings.Repeat("sixteen letters.", 100), Score: float64(i),
		})
	}
	return r
}

func BenchmarkDecode(b *testing.B) {
	key := cache.NewKey(cache.Selected, question("q"))
	value := cache.Encode(key, six())
	b.ReportAllocs()
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if _, err := cache.Decode(key, value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	key, r := cache.NewKey(cache.Selected, question("q")), six()
	b.ReportAllocs()
	for b.Loop() {
		cache.Encode(key, r)
	}
}

func BenchmarkKey(b *testing.B) {
	q := question("How many weeks of parental leave do I get?")
	b.ReportAllocs()
	for b.Loop() {
		_ = cache.NewKey(cache.Selected, q).String()
	}
}
