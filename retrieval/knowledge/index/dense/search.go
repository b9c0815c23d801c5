package dense

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sort"
	"sync"
)

const (
	// rescored is the least number of vectors that are compared exactly. With a hundred thousand
	// real vectors, 1 in 200 of the ten best is not among them; with 300 instead of 1000 it is 1
	// in 50 to 20.
	rescored = 1000
	// fewVectors is the number of vectors up to which all are compared exactly.
	fewVectors = 2 * rescored
)

// A Ref identifies a text: the number of its segment in the Index, and its ordinal there.
type Ref struct{ Segment, Text int }

// A Hit is a text with the cosine of its vector and a question's.
type Hit struct {
	Ref
	Cosine float64
}

// An Index is a search index of vectors. The zero Index is empty.
type Index struct {
	segments   []*Live
	dimensions int
	vectors    int
	compare    func(a, b Ref) int
	scratch    sync.Pool // *[]uint16
}

// NewIndex returns the index of the live vectors of segments, some of which may be nil. compare
// orders texts of equal cosines. It is an error if segments have vectors of different dimensions.
func NewIndex(segments []*Live, compare func(a, b Ref) int) (*Index, error) {
	x := &Index{segments: segments, compare: compare}
	for _, l := range segments {
		switch {
		case l.Len() == 0:
			continue
		case x.dimensions == 0:
			x.dimensions = l.segment.dimensions
		case x.dimensions != l.segment.dimensions:
			return nil, fmt.Errorf("vectors of %d and of %d dimensions in one index", x.dimensions, l.segment.dimensions)
		}
		x.vectors += l.vectors
	}
	return x, nil
}

// Len returns the number of live vectors.
func (x *Index) Len() int { return x.vectors }

// Has reports whether a text has a vector.
func (x *Index) Has(ref Ref) bool { return x.segments[ref.Segment].Has(ref.Text) }

// A Question is a vector to search for.
type Question struct {
	unit       []float64
	components []int64 // unit divided by scale
	scale      float64
}

// questionScale is the greatest component of a question: the dot product with a vector fits into
// 64 bits for any number of dimensions.
const questionScale = math.MaxInt16

// NewQuestion returns a Question for a vector of any length.
func NewQuestion(v []float32) (*Question, error) {
	unit, err := normal(v)
	if err != nil {
		return nil, err
	}
	q := &Question{unit: unit, components: make([]int64, len(unit))}
	most := 0.0
	for _, c := range unit {
		most = max(most, math.Abs(c))
	}
	q.scale = most / questionScale
	for i, c := range unit {
		q.components[i] = int64(math.Round(c / q.scale))
	}
	return q, nil
}

// Vector returns the vector of a text as a Question.
func (x *Index) Vector(ref Ref) (*Question, error) {
	defer runtime.KeepAlive(x)
	s := x.segments[ref.Segment].segment
	kept, err := s.kept(ref.Text)
	if err != nil {
		return nil, &SegmentError{Segment: ref.Segment, Err: err}
	}
	return NewQuestion(Components(kept))
}

// Search returns at most k texts with the greatest cosines, greatest first. It may miss texts that
// are not among the best by their bits. allow restricts the result, per segment, to texts, as bits
// like in Live; nil allows all. The cosines are exact to .001.
//
// It returns an error for a vector of other dimensions, for a damaged vector that was read, and
// when ctx ends.
func (x *Index) Search(ctx context.Context, q *Question, k int, allow [][]uint64) ([]Hit, error) {
	defer runtime.KeepAlive(x)
	if x.vectors == 0 || k <= 0 {
		return nil, ctx.Err()
	}
	if len(q.unit) != x.dimensions {
		return nil, fmt.Errorf("%w of %d dimensions: %d", ErrVector, x.dimensions, len(q.unit))
	}
	sets, n := x.allowed(allow)
	candidates := make([]Ref, 0, fewVectors)
	if n <= max(fewVectors, k) {
		for i, set := range sets {
			for text := range each(set) {
				candidates = append(candidates, Ref{i, text})
			}
		}
	} else {
		var err error
		if candidates, err = x.nearest(ctx, q, sets, max(rescored, 4*k), candidates); err != nil {
			return nil, err
		}
	}
	return x.score(ctx, q, candidates, k)
}

// allowed returns, per segment, the live texts with vectors that may be found, and their number.
func (x *Index) allowed(allow [][]uint64) (sets [][]uint64, n int) {
	sets = make([][]uint64, len(x.segments))
	for i, l := range x.segments {
		switch {
		case l.Len() == 0:
		case allow == nil:
			sets[i], n = l.set, n+l.vectors
		default:
			set := make([]uint64, min(len(l.set), len(allow[i])))
			for w := range set {
				set[w] = l.set[w] & allow[i][w]
			}
			sets[i], n = set, n+count(set)
		}
	}
	return sets, n
}

// score compares the vectors of texts exactly, and returns the best k.
func (x *Index) score(ctx context.Context, q *Question, texts []Ref, k int) ([]Hit, error) {
	best := top{k: k, compare: x.compare}
	for i, ref := range texts {
		if i%pause == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		cosine, err := x.segments[ref.Segment].segment.cosine(q, ref.Text)
		if err != nil {
			return nil, &SegmentError{Segment: ref.Segment, Err: err}
		}
		best.add(Hit{ref, cosine})
	}
	return best.hits, nil
}

// Cosine returns the cosine of a text that has a vector.
func (x *Index) Cosine(q *Question, ref Ref) (float64, error) {
	defer runtime.KeepAlive(x)
	if len(q.unit) != x.dimensions {
		return 0, fmt.Errorf("%w of %d dimensions: %d", ErrVector, x.dimensions, len(q.unit))
	}
	cosine, err := x.segments[ref.Segment].segment.cosine(q, ref.Text)
	if err != nil {
		err = &SegmentError{Segment: ref.Segment, Err: err}
	}
	return cosine, err
}

// A SegmentError means that a segment of an Index is damaged.
type SegmentError struct {
	Segment int // number of the segment
	Err     error
}

func (e *SegmentError) Error() string { return fmt.Sprintf("segment %d: %v", e.Segment, e.Err) }

func (e *SegmentError) Unwrap() error { return e.Err }

// cosine returns the exact cosine of a vector. Integer sums are the same on every machine.
func (s *Segment) cosine(q *Question, text int) (float64, error) {
	kept, err := s.kept(text)
	if err != nil {
		return 0, err
	}
	v := kept[scaleBytes:]
	c := q.components[:len(v)]
	var a, b int64
	for len(v) >= 4 && len(c) >= 4 {
		a += int64(int8(v[0]))*c[0] + int64(int8(v[1]))*c[1]
		b += int64(int8(v[2]))*c[2] + int64(int8(v[3]))*c[3]
		v, c = v[4:], c[4:]
	}
	for i := range v {
		a += int64(int8(v[i])) * c[i]
	}
	return max(-1, min(1, float64(a+b)*q.scale*float64(scaleOf(kept)))), nil
}

// A top is the best hits, best first.
type top struct {
	k       int
	compare func(a, b Ref) int
	hits    []Hit
}

func (t *top) add(h Hit) {
	if len(t.hits) == t.k && h.Cosine < t.hits[t.k-1].Cosine {
		return
	}
	at, _ := slices.BinarySearchFunc(t.hits, h, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), t.compare(a.Ref, b.Ref))
	})
	if at == t.k {
		return
	}
	t.hits = slices.Insert(t.hits, at, h)
	t.hits = t.hits[:min(len(t.hits), t.k)]
}

// buckets is the number of steps of estimated cosines, from -2 to 2.
const buckets = 4096

// nearest appends the n texts of sets that are nearest to the question by their bits. Distances in
// bits are not comparable between segments, because their means differ; it compares the expected
// cosines.
func (x *Index) nearest(ctx context.Context, q *Question, sets [][]uint64, n int, found []Ref) ([]Ref, error) {
	texts := 0
	for i := range sets {
		texts += 64 * len(sets[i])
	}
	room, _ := x.scratch.Get().(*[]uint16)
	if room == nil || len(*room) < texts {
		room = new([]uint16)
		*room = make([]uint16, texts)
	}
	defer x.scratch.Put(room)
	var expected [buckets]int            // number of texts in each bucket
	steps := make([][]uint16, len(sets)) // bucket, by segment and distance
	distances := *room
	for i, set := range sets {
		if len(set) == 0 {
			continue
		}
		s := x.segments[i].segment
		counts := make([]int, s.dimensions+1)
		code, step := s.question(q)
		if err := s.measureAll(ctx, code, set, distances, counts); err != nil {
			return nil, err
		}
		for distance, n := range counts {
			expected[step[distance]] += n
		}
		steps[i], distances = step, distances[64*len(set):]
	}
	last, above := buckets-1, 0 // the bucket that is taken in part, and the number of texts above it
	for ; last > 0 && above+expected[last] < n; last-- {
		above += expected[last]
	}
	distances, left := *room, n-above
	for i, set := range sets {
		if len(set) == 0 {
			continue
		}
		below := func(step int) uint16 { // the least distance with that bucket or a lower one
			return uint16(sort.Search(len(steps[i]), func(d int) bool { return int(steps[i][d]) <= step }))
		}
		near, far := below(last), below(last-1)
		for text, d := range distances[:64*len(set)] {
			if d >= far {
				continue
			}
			if d >= near {
				if left == 0 {
					continue
				}
				left--
			}
			found = append(found, Ref{i, text})
		}
		distances = distances[64*len(set):]
	}
	return found, nil
}

// question returns the code of a question, and by distance from it the bucket of the expected
// cosine, which never increases.
func (s *Segment) question(q *Question) (code []uint64, step []uint16) {
	code, step = make([]uint64, s.words()), make([]uint16, s.dimensions+1)
	square, mean := 0.0, 0.0
	for i, c := range q.unit {
		m := float64(s.center[i])
		if c > m {
			code[i/64] |= 1 << (i % 64)
		}
		square, mean = square+(c-m)*(c-m), mean+c*m
	}
	reach := float64(s.radius) * math.Sqrt(square)
	for d := range step {
		cosine := mean + reach*math.Cos(math.Pi*float64(d)/float64(s.dimensions))
		step[d] = uint16(min(max((cosine+2)/4, 0), 1) * (buckets - 1))
	}
	return code, step
}

const (
	// pause is how many texts, or words of a set, are processed between checks of the context.
	pause = 1 << 9
	// noDistance marks a text that is not in a set.
	noDistance = math.MaxUint16
)

// measureAll writes the distances of the texts of a set from a code, and counts them.
func (s *Segment) measureAll(ctx context.Context, code, set []uint64, distances []uint16, counts []int) error {
	n := len(code)
	for w, texts := range set {
		if w%pause == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		of := distances[64*w:][:64]
		if texts == math.MaxUint64 {
			codes := s.codes[64*w*n:][:64*n]
			for i := range of {
				d := distance(code, codes[i*n:])
				of[i] = uint16(d)
				counts[d]++
			}
			continue
		}
		for i := range of {
			of[i] = noDistance
		}
		for ; texts != 0; texts &= texts - 1 {
			i := bits.TrailingZeros64(texts)
			d := distance(code, s.codes[(64*w+i)*n:])
			of[i] = uint16(d)
			counts[d]++
		}
	}
	return nil
}

// distance returns the number of bits in which code differs from the beginning of other.
func distance(code, other []uint64) (d int) {
	other = other[:len(code)]
	for len(code) >= 2 && len(other) >= 2 {
		d += bits.OnesCount64(code[0]^other[0]) + bits.OnesCount64(code[1]^other[1])
		code, other = code[2:], other[2:]
	}
	if len(code) > 0 && len(other) > 0 {
		d += bits.OnesCount64(code[0] ^ other[0])
	}
	return d
}
