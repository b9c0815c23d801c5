// Package dense is an index of vectors, searched by cosine without a graph: first all vectors by
// one bit per dimension, and then the best of these exactly.
//
// A bit tells on which side of the mean of all vectors a component is. The angle between two
// vectors, seen from the mean, is about proportional to the share of bits in which they differ
// (Charikar, Similarity estimation techniques from rounding algorithms, 2002). Vectors of texts
// embedded by one model are in a narrow cone: without the mean, most bits would be equal.
//
// Vectors are in segments, which are immutable flat images, the same in memory and on disk; they
// are deleted by a bitmap beside theirs. A vector belongs to a text, which is identified by a
// segment and an ordinal. Segments and Indexes are safe for concurrent use.
package dense

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"math/bits"
	"runtime"
)

// A Segment is the vectors of some texts; a text may have none.
type Segment struct {
	sizes
	owner   any       // owns the memory of the image
	set     []uint64  // one bit per text: whether it has a vector
	center  []float32 // the mean of the vectors
	radius  float32   // the mean distance of the vectors from it
	codes   []uint64  // by text
	vectors []byte    // by text
}

// Texts returns the number of texts, including those without a vector.
func (s *Segment) Texts() int { return s.texts }

// Dimensions returns the number of components of its vectors.
func (s *Segment) Dimensions() int { return s.dimensions }

// Len returns the number of vectors.
func (s *Segment) Len() int { return count(s.set) }

// Has reports whether a text has a vector.
func (s *Segment) Has(text int) bool { return s.set[text/64]>>(text%64)&1 != 0 }

// all yields the texts that have a vector.
func (s *Segment) all(yield func(text int) bool) { each(s.set)(yield) }

// Kept returns a copy of a text's vector in the form of Quantize.
func (s *Segment) Kept(text int) ([]byte, error) {
	defer runtime.KeepAlive(s)
	kept, err := s.kept(text)
	return bytes.Clone(kept), err
}

// kept returns the vector of a text in the form of Quantize, in place, after checking it.
func (s *Segment) kept(text int) ([]byte, error) {
	row := s.vectors[text*s.stride():][:s.stride()]
	kept := row[sumBytes:]
	if crc32.Checksum(kept, castagnoli) != binary.LittleEndian.Uint32(row) || !Valid(kept, s.dimensions) {
		return nil, fmt.Errorf("%w: text %d", ErrDamaged, text)
	}
	return kept, nil
}

// components returns the vector of a text without checking it.
func (s *Segment) components(text int) []float32 {
	return Components(s.vectors[text*s.stride()+sumBytes:][:scaleBytes+s.dimensions])
}

// measure sets the mean and the mean distance from it.
func (s *Segment) measure() {
	n, sum := float64(s.Len()), make([]float64, s.dimensions)
	s.center, s.radius = make([]float32, s.dimensions, s.dimensions+1), 0
	if n == 0 {
		return
	}
	for t := range s.all {
		for i, c := range s.components(t) {
			sum[i] += float64(c)
		}
	}
	for i := range sum {
		s.center[i] = float32(sum[i] / n)
	}
	distances := 0.0
	for t := range s.all {
		square := 0.0
		for i, c := range s.components(t) {
			square += float64(c-s.center[i]) * float64(c-s.center[i])
		}
		distances += math.Sqrt(square)
	}
	s.radius = float32(distances / n)
}

// A Live is a segment some of whose texts may be dead.
type Live struct {
	segment *Segment
	set     []uint64 // the live texts that have a vector
	vectors int      // their number
}

// Live returns the segment without the dead texts. Text i is bit i%64 of word i/64 of dead; texts
// beyond its end are live.
func (s *Segment) Live(dead []uint64) *Live {
	defer runtime.KeepAlive(s)
	l := &Live{segment: s, set: s.set}
	if count(dead) > 0 {
		l.set = append([]uint64(nil), s.set...)
		for i := range min(len(dead), len(l.set)) {
			l.set[i] &^= dead[i]
		}
	}
	l.vectors = count(l.set)
	return l
}

// Len returns the number of live texts that have a vector; a nil Live has none.
func (l *Live) Len() int {
	if l == nil {
		return 0
	}
	return l.vectors
}

// Has reports whether a live text has a vector.
func (l *Live) Has(text int) bool {
	return l != nil && text/64 < len(l.set) && l.set[text/64]>>(text%64)&1 != 0
}

func count(set []uint64) (n int) {
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}

// each yields the members of a set.
func each(set []uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range set {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
