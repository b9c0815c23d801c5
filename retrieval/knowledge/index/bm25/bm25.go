// Package bm25 is an index of texts, ranked by Okapi BM25 (Robertson and
// Zaragoza, The Probabilistic Relevance Framework, 2009) with the idf that is
// never negative and with terms that texts repeat weighing more (see repetition), and
// searched with MaxScore (Turtle and Flood, Query evaluation: strategies and
// optimizations, 1995).
//
// Texts lie in segments, which are flat images, the same in memory and on disk,
// and never change: texts are added in a further segment, and deleted by a bitmap beside
// theirs. An Index is a view of some segments. Its answers depend
// on the live texts alone, to the last bit of every score, and not on how they
// came to lie in segments: statistics are exact over the live texts, and equal
// scores stand in the caller's order.
//
// The package holds no documents: a text is a segment and an ordinal in it.
// Segments and Indexes are safe for concurrent use.
package bm25

import (
	"math"
	"math/bits"
	"runtime"
	"sync"

	"sidenote/retrieval"
)

// The parameters of BM25; on scientific abstracts and on Chinese paragraphs they
// do better than the .9 and .4 that are often given.
const (
	k1 = 1.2
	b  = 0.75
)

// unit is one point of score in the fixed-point numbers that are added up.
// Integers make the sum independent of the order of addition, which differs from
// search to search: equal texts score equal, to the last bit, on every machine.
const unit = 1 << 20

// A Ref is a text: the number of its segment in the Index, and its ordinal there.
type Ref struct{ Segment, Text int }

// A Compare orders texts; it returns 0 for none but a text and itself. If
// rankings must not depend on how texts are spread over segments, it must not either:
// order them by document id and place in the document.
type Compare func(a, b Ref) int

// An Index is searched with Search. The zero Index is empty.
type Index struct {
	views   []view
	compare Compare
	first   []int   // by segment: the number of its first text among those of all, dead ones included
	bits    uint    // of such a number
	texts   int     // live
	average float64 // length
	usual   float64 // how often a text has a term that it has, over all terms and texts
	known   retrieval.Recent[known]
	scratch sync.Pool // *scratch
}

// A view is a segment as one Index sees it.
type view struct {
	*Live
	norms []float32 // k1·(1-b+b·length/average) by text
}

// NewIndex returns the index of the live texts of segments. compare orders equal
// scores; in each segment texts must stand in its order, or ties may come in
// another.
//
// It costs about 3 ns a text and reads no postings.
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

// A Meaning is what a term says about a text that has it.
type Meaning struct {
	// IDF is the inverse document frequency, ln(1+(N-n+½)/(n+½)). A term that no live text has
	// gets the greatest.
	IDF float64
	// Weight is what its frequency in a text is multiplied by in scores: its IDF, more where
	// texts repeat the term, less where they do not.
	Weight float64
	// Known says that a live text has it.
	Known bool
}

// Meaning returns what a term means in the Index.
func (x *Index) Meaning(term string) Meaning {
	k := x.look(term, nil)
	return Meaning{k.idf, k.weight, k.texts > 0}
}

func idf(texts, n int) float64 {
	return math.Log1p((float64(texts) - float64(n) + 0.5) / (float64(n) + 0.5))
}

// Has tells whether a live text, such as that of a Hit, has a term. That is cheap for the
// terms of a search, after it.
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
