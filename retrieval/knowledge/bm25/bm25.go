// Package bm25 is an in-memory index of texts, ranked by Okapi BM25 (Robertson
// and Zaragoza, The Probabilistic Relevance Framework, 2009) with the idf that
// is never negative, and searched with MaxScore (Turtle and Flood, Query
// evaluation: strategies and optimizations, 1995).
//
// It holds no documents: a text is an ordinal in order of Add, and a search
// returns ordinals with scores. An Index is immutable and safe for concurrent use.
package bm25

import (
	"math"
	"sort"
	"sync"

	"sidenote/retrieval/knowledge/analysis"
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

// A posting says that a text has a term: the text's ordinal in its segment in
// the upper bits, how often in the lower ones.
type posting uint32

const (
	freqBits    = 15
	maxFreq     = 1<<freqBits - 1
	segmentSize = 1 << (32 - freqBits) // texts; their ordinals fill the upper bits
)

func (p posting) text() uint32  { return uint32(p >> freqBits) }
func (p posting) freq() float32 { return float32(p & maxFreq) }

// A segment is up to segmentSize texts in compressed sparse row form: the
// postings of term t are postings[starts[t]:starts[t+1]], by ordinal.
type segment struct {
	base     int // ordinal of its first text
	starts   []uint32
	postings []posting
	norms    []float32 // k1·(1-b+b·length/average) by text
	best     []float32 // greatest impact by term: bounds what the term can add
}

// of returns the postings of a term; terms that are new after this segment have none.
func (s *segment) of(term uint32) []posting {
	if int(term)+1 >= len(s.starts) {
		return nil
	}
	return s.postings[s.starts[term]:s.starts[term+1]]
}

// impact is the part of BM25 that depends on the text, in [0,1).
func impact(freq, norm float32) float32 { return freq / (freq + norm) }

// An Index is searched with Search. The zero Index is empty.
type Index struct {
	vocabulary analysis.Vocabulary
	segments   []segment
	dfs        []uint32 // texts by term
	texts      int
	scratch    sync.Pool // *scratch
}

// Len returns the number of texts.
func (x *Index) Len() int { return x.texts }

// IDF returns the inverse document frequency of term, ln(1+(N-n+½)/(n+½)). A
// term that no text has gets the greatest.
func (x *Index) IDF(term string) float64 {
	n := 0.0
	if id, ok := x.vocabulary.Lookup(term); ok {
		n = float64(x.dfs[id])
	}
	return idf(float64(x.texts), n)
}

func idf(texts, n float64) float64 { return math.Log1p((texts - n + 0.5) / (n + 0.5)) }

// Sample returns the term of the posting that stands at the share pick, in [0,1),
// of all postings: terms are drawn as often as there are texts that have them. It
// is "" where there are none.
func (x *Index) Sample(pick float64) string {
	total := 0
	for i := range x.segments {
		total += len(x.segments[i].postings)
	}
	at := int(pick * float64(total))
	for i := range x.segments {
		s := &x.segments[i]
		if at < len(s.postings) {
			// starts has the end of term t at t+1; the first end beyond at is its term's.
			t := sort.Search(len(s.starts)-1, func(t int) bool { return int(s.starts[t+1]) > at })
			return x.vocabulary.Term(uint32(t))
		}
		at -= len(s.postings)
	}
	return ""
}

// MaxScore returns what a text could score for a term of weight 1 and the given
// idf, were it to repeat it for ever.
func MaxScore(idf float64) float64 { return idf * (k1 + 1) }
