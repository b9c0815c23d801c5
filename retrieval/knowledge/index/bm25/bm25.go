// Package bm25 is an index of texts, ranked by Okapi BM25 (Robertson and Zaragoza, The
// Probabilistic Relevance Framework, 2009) with a non-negative idf and a higher weight of terms
// that texts repeat (see repetition), and searched with MaxScore (Turtle and Flood, Query
// evaluation: strategies and optimizations, 1995).
//
// Texts are in segments, which are immutable flat images, the same in memory and on disk: texts
// are added in a new segment, and deleted by a bitmap beside theirs. An Index is a view of some
// segments. Its results depend only on the live texts, to the last bit of every score, and not on
// how they are divided into segments: statistics are exact over the live texts, and equal scores
// are in the caller's order.
//
// The package stores no documents: a text is identified by its segment and an ordinal. Segments
// and Indexes are safe for concurrent use.
package bm25

import (
	"math"
	"math/bits"
	"runtime"
	"sync"

	"sidenote/retrieval"
)

// The parameters of BM25. On scientific abstracts and Chinese paragraphs they do better than the
// common .9 and .4.
const (
	k1 = 1.2
	b  = 0.75
)

// unit is one point of score in fixed-point numbers. Integers make a sum independent of the order
// of addition, which varies between searches: equal texts have equal scores, to the last bit, on
// every machine.
const unit = 1 << 20

// A Ref identifies a text: the number of its segment in the Index, and its ordinal there.
type Ref struct{ Segment, Text int }

// A Compare orders texts; it returns 0 only for a text and itself. If rankings must not depend on
// the division into segments, it must not either: order texts by document id and position in the
// document.
type Compare func(a, b Ref) int

// An Index is a search index of texts. The zero Index is empty.
type Index struct {
	views   []view
	compare Compare
	first   []int   // by segment: the number of its first text among all texts, including dead ones
	bits    uint    // size of such a number
	texts   int     // live
	average float64 // average length
	usual   float64 // average frequency of a term in a text that contains it
	known   retrieval.Recent[known]
	scratch sync.Pool // *scratch
}

// A view is a segment as part of an Index.
type view struct {
	*Live
	norms []float32 // k1·(1-b+b·length/average) by text
}

// NewIndex returns the index of the live texts of segments. compare orders equal scores; the texts
// of each segment must be in that order, or ties may be in another.
//
// It takes about 3 ns per text and reads no postings.
func NewIndex(segments []*Live, compare Compare) *Index {
	x := &Index{views: make([]view, len(segments)), compare: compare, first: make([]int, len(segments))}
	var total, postings uint64
	numbers := 0
	for i, l := range segments {
		x.first[i] = numbers
		numbers += l.segment.Len()
		x.texts += l.texts
		total += l.lengths
		postings += uint64(l.before[l.segment.terms()])
	}
	x.bits = uint(bits.Len(uint(numbers)))
	if x.texts > 0 {
		x.average = float64(total) / float64(x.texts)
	}
	x.usual = usual(total, postings)
	for i, l := range segments {
		norms := make([]float32, len(l.segment.lengths))
		for t, n := range l.segment.lengths {
			norms[t] = norm(n, x.average)
		}
		x.views[i] = view{l, norms}
		runtime.KeepAlive(l)
	}
	return x
}

// norm returns the length norm of a text.
func norm(length uint32, average float64) float32 {
	if average == 0 {
		return k1
	}
	return float32(k1 * (1 - b + b*float64(length)/average))
}

// impact is the part of BM25 that depends on the text, in [0,1).
func impact(freq, norm float32) float32 { return freq / (freq + norm) }

// Len returns the number of live texts.
func (x *Index) Len() int { return x.texts }

// A Meaning holds the weights of a term.
type Meaning struct {
	// IDF is the inverse document frequency, ln(1+(N-n+½)/(n+½)). It is greatest for a term that
	// no live text contains.
	IDF float64
	// Weight is the factor of the term in scores: IDF times its repetition, which is higher for
	// terms that texts repeat.
	Weight float64
	// Known reports whether a live text contains the term.
	Known bool
}

// Meaning returns the weights of a term in the Index.
func (x *Index) Meaning(term string) Meaning {
	k := x.look(term, nil)
	return Meaning{k.idf, k.weight, k.texts > 0}
}

func idf(texts, n int) float64 {
	return math.Log1p((float64(texts) - float64(n) + 0.5) / (float64(n) + 0.5))
}

// Has reports whether a live text contains a term. It is cheap for the terms of a preceding
// search.
func (x *Index) Has(ref Ref, term string) bool {
	defer runtime.KeepAlive(x)
	in := x.look(term, nil).in[ref.Segment]
	if in.texts == 0 {
		return false
	}
	postings := x.views[ref.Segment].segment.of(in.id)
	at := seek(postings, uint32(ref.Text))
	return at < len(postings) && postings[at].text() == uint32(ref.Text)
}
