package dense_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"sidenote/retrieval/knowledge/index/dense"
)

// clusters returns vectors distributed like those of texts: in a cone, grouped by topic. They
// depend only on the arguments.
func clusters(seed uint64, n, dimensions int) [][]float32 {
	draw := rand.New(rand.NewPCG(seed, 1))
	shared := rand.New(rand.NewPCG(7, 7)) // the cone and the topics are the same for every seed
	direction := func(r *rand.Rand, length float64) []float64 {
		v := make([]float64, dimensions)
		for i := range v {
			v[i] = r.NormFloat64() * length / math.Sqrt(float64(dimensions))
		}
		return v
	}
	cone := direction(shared, .5)
	topics := make([][]float64, 100)
	for i := range topics {
		topics[i] = direction(shared, .6)
	}
	out := make([][]float32, n)
	for i := range out {
		topic, own := topics[draw.IntN(len(topics))], direction(draw, .6)
		out[i] = make([]float32, dimensions)
		for j := range out[i] {
			out[i][j] = float32(cone[j] + topic[j] + own[j])
		}
	}
	return out
}

type fatal interface {
	Helper()
	Fatal(...any)
}

func quantized(t fatal, vectors [][]float32) [][]byte {
	t.Helper()
	kept := make([][]byte, len(vectors))
	for i, v := range vectors {
		if v == nil {
			continue
		}
		var err error
		if kept[i], err = dense.Quantize(v); err != nil {
			t.Fatal(err)
		}
	}
	return kept
}

func image(t fatal, vectors [][]float32, dimensions int) []byte {
	t.Helper()
	kept := quantized(t, vectors)
	img, err := dense.Build("space", len(kept), dimensions, func(text int) []byte { return kept[text] })
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func segment(t fatal, vectors [][]float32, dimensions int) *dense.Segment {
	t.Helper()
	s, err := dense.Open(image(t, vectors, dimensions), "space", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inOrder(a, b dense.Ref) int {
	return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Text, b.Text))
}

func index(t fatal, segments ...*dense.Live) *dense.Index {
	t.Helper()
	x, err := dense.NewIndex(segments, inOrder)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const perSegment = 50_000

func segmentsOf(n int) int { return (n + perSegment - 1) / perSegment }

// clustered returns an index of n vectors, and questions for it.
func clustered(t fatal, n, dimensions int) (*dense.Index, [][]float32) {
	t.Helper()
	var live []*dense.Live
	for i := range segmentsOf(n) {
		live = append(live, segment(t, clusters(uint64(i), min(perSegment, n-i*perSegment), dimensions), dimensions).Live(nil))
	}
	return index(t, live...), clusters(1<<20, 100, dimensions)
}

func question(t fatal, v []float32) *dense.Question {
	t.Helper()
	q, err := dense.NewQuestion(v)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func search(t fatal, x *dense.Index, v []float32, k int, allow [][]uint64) []dense.Hit {
	t.Helper()
	hits, err := x.Search(context.Background(), question(t, v), k, allow)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func cosine(a, b []float32) float64 {
	ab, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// nearest returns the ten vectors with the greatest cosines.
func nearest(q []float32, vectors [][]float32, allowed func(i int) bool) []int {
	cosines := make([]float64, len(vectors))
	var of []int
	for i, v := range vectors {
		if allowed(i) {
			cosines[i], of = cosine(q, v), append(of, i)
		}
	}
	slices.SortFunc(of, func(a, b int) int { return cmp.Compare(cosines[b], cosines[a]) })
	return of[:10]
}

// Nearly all of the ten nearest vectors at full precision are found: in one segment and in several
// of different topics, in any number of dimensions, and under filters of any selectivity.
func TestRecall(t *testing.T) {
	for _, tc := range []struct {
		dimensions, keep int // one text in keep is allowed
		least            float64
	}{{384, 1, .98}, {384, 3, .98}, {384, 100, .98}, {100, 1, .93}, {768, 1, .98}} {
		n := 8000
		if testing.Short() {
			n = 2000
		}
		vectors := clusters(3, n, tc.dimensions)
		// One text in seven is dead, one in eleven has no vector.
		present := make([][]float32, n)
		dead := make([]uint64, n/64+1)
		allowed := make([]uint64, n/64+1)
		for i := range vectors {
			if i%11 != 0 {
				present[i] = vectors[i]
			}
			if i%7 == 0 {
				dead[i/64] |= 1 << (i % 64)
			}
			if i%tc.keep == 0 {
				allowed[i/64] |= 1 << (i % 64)
			}
		}
		found, asked := 0, 0
		x := index(t, nil, segment(t, present, tc.dimensions).Live(dead))
		for _, q := range clusters(4, 30, tc.dimensions) {
			want := nearest(q, vectors, func(i int) bool { return i%11 != 0 && i%7 != 0 && i%tc.keep == 0 })
			allow := [][]uint64{nil, allowed}
			if tc.keep == 1 {
				allow = nil
			}
			hits := search(t, x, q, 10, allow)
			for _, h := range hits {
				if h.Segment != 1 || h.Text%11 == 0 || h.Text%7 == 0 || h.Text%tc.keep != 0 {
					t.Fatalf("found %v, which has no vector, is dead or not allowed", h)
				}
				if want := cosine(q, vectors[h.Text]); math.Abs(h.Cosine-want) > .003 {
					t.Fatalf("cosine %.5f, want %.5f", h.Cosine, want)
				}
				if slices.Contains(want, h.Text) {
					found++
				}
			}
			asked += 10
		}
		if recall := float64(found) / float64(asked); recall < tc.least {
			t.Errorf("%d dimensions, one in %d: recall@10 %.3f, want %.2f", tc.dimensions, tc.keep, recall, tc.least)
		} else {
			t.Logf("%d dimensions, one in %d: recall@10 %.3f", tc.dimensions, tc.keep, recall)
		}
	}
}

// If segments have different topics, the nearest are found as if they were in one.
func TestSegmentsOfDifferentTopics(t *testing.T) {
	const dimensions = 256
	n := 12_000
	if testing.Short() {
		n = 4000
	}
	vectors := clusters(5, n, dimensions)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(vectors[a][0]+vectors[a][1], vectors[b][0]+vectors[b][1]) })
	var live []*dense.Live
	var texts [][]int
	for part := range slices.Chunk(order, n/8) {
		var of [][]float32
		for _, i := range part {
			of = append(of, vectors[i])
		}
		texts, live = append(texts, part), append(live, segment(t, of, dimensions).Live(nil))
	}
	x := index(t, live...)
	found := 0
	questions := clusters(6, 30, dimensions)
	for _, q := range questions {
		best := nearest(q, vectors, func(int) bool { return true })
		for _, h := range search(t, x, q, 10, nil) {
			if slices.Contains(best, texts[h.Segment][h.Text]) {
				found++
			}
		}
	}
	if recall := float64(found) / float64(10*len(questions)); recall < .97 {
		t.Errorf("recall@10 %.3f", recall)
	}
}

// Texts with equal vectors are in the caller's order, however many there are.
func TestEqualVectors(t *testing.T) {
	vectors := slices.Repeat(clusters(1, 1, 64), 5000)
	x := index(t, segment(t, vectors, 64).Live(nil))
	hits := search(t, x, vectors[0], 20, nil)
	if len(hits) != 20 {
		t.Fatalf("%d hits", len(hits))
	}
	for i, h := range hits {
		if i > 0 && inOrder(hits[i-1].Ref, h.Ref) >= 0 || h.Cosine < .9999 || h.Cosine > 1 {
			t.Errorf("%v after %v", h, hits[max(0, i-1)])
		}
	}
}

// A vector without a direction is rejected everywhere.
func TestNoVector(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range [][]float32{nil, {}, {0, 0}, {1, nan}, {inf, 1}, {-inf, 0}} {
		if _, err := dense.Quantize(v); !errors.Is(err, dense.ErrVector) {
			t.Errorf("%v is kept: %v", v, err)
		}
		if _, err := dense.NewQuestion(v); !errors.Is(err, dense.ErrVector) {
			t.Errorf("%v is asked: %v", v, err)
		}
	}
	x := index(t, segment(t, clusters(1, 10, 64), 64).Live(nil))
	if _, err := x.Search(t.Context(), question(t, []float32{1, 2}), 10, nil); !errors.Is(err, dense.ErrVector) {
		t.Errorf("2 dimensions among 64: %v", err)
	}
	if _, err := dense.NewIndex([]*dense.Live{segment(t, clusters(1, 2, 64), 64).Live(nil), segment(t, clusters(1, 2, 32), 32).Live(nil)}, inOrder); err == nil {
		t.Error("64 and 32 dimensions make an index")
	}
	kept := quantized(t, clusters(1, 1, 64))[0]
	for name, bad := range map[string][]byte{"short": kept[:67], "empty": {}, "no scale": make([]byte, 68), "huge scale": append([]byte{0, 0, 0x80, 0x7f}, kept[4:]...)} {
		if _, err := dense.Build("space", 1, 64, func(int) []byte { return bad }); !errors.Is(err, dense.ErrVector) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A quantized vector has the direction of the original, whatever its length.
func TestQuantize(t *testing.T) {
	for _, v := range [][]float32{{3e38, -3e38, 1e38}, {1e-40, 0, -1e-40}, {1}, {-.5, .25, .125, 0}} {
		kept, err := dense.Quantize(v)
		if err != nil || !dense.Valid(kept, len(v)) || dense.Dimensions(kept) != len(v) {
			t.Fatalf("%v: %x, %v", v, kept, err)
		}
		x := index(t, segment(t, [][]float32{v}, len(v)).Live(nil))
		if hits := search(t, x, v, 1, nil); len(hits) != 1 || hits[0].Cosine < .9999 {
			t.Errorf("%v finds %v", v, hits)
		}
	}
}

// A search ends with its context.
func TestSearchStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	x, questions := clustered(t, 3000, 64)
	if _, err := x.Search(ctx, question(t, questions[0]), 10, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Without vectors nothing is found.
func TestEmpty(t *testing.T) {
	none := segment(t, make([][]float32, 100), 64)
	for name, x := range map[string]*dense.Index{
		"no segment": index(t), "nil": index(t, nil), "no text": index(t, segment(t, nil, 64).Live(nil)), "no vector": index(t, none.Live(nil)),
	} {
		if hits := search(t, x, []float32{1}, 10, nil); len(hits) != 0 || x.Len() != 0 {
			t.Errorf("%s: %v", name, hits)
		}
	}
}
