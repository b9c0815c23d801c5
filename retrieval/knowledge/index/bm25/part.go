package bm25

import (
	"math/bits"
	"slices"
	"sort"
	"strings"
)

// A Corpus describes texts that are elsewhere, of which an Index holds some, or only the terms.
type Corpus struct {
	Texts   int    // number of texts
	Lengths uint64 // total length
	Terms   uint64 // sum of the numbers of distinct terms of the texts
}

// A CorpusTerm says how common a term is in a Corpus.
type CorpusTerm struct {
	Text  string
	Texts int    // number of texts that contain it
	Total uint64 // sum of its frequencies in them
	// In tells by segment of a part whether texts of the Corpus that belong to the segment contain
	// it; nil means all segments.
	In []bool
}

// A PartText is a text of a part: its length, and the frequency of each of the part's terms.
type PartText struct {
	Length int
	Freqs  []int // by index into the terms of the part
}

// A corpus is what a part knows of its Corpus.
type corpus struct{ terms []CorpusTerm } // sorted by text

func (c *corpus) find(term string) (t CorpusTerm) {
	i, ok := slices.BinarySearchFunc(c.terms, term, func(t CorpusTerm, text string) int { return strings.Compare(t.Text, text) })
	if !ok {
		return CorpusTerm{Text: term}
	}
	return c.terms[i]
}

// within reports whether texts of some segments contain the term.
func (t CorpusTerm) within(segments func(segment int) bool) bool {
	if t.In == nil {
		return t.Texts > 0
	}
	for i, in := range t.In {
		if in && segments(i) {
			return true
		}
	}
	return false
}

// NewPart returns an Index of some texts of a corpus, by segment, with some of its terms. It gives
// its texts the scores that an Index of the whole Corpus would give them for questions of these
// terms. terms must be distinct and sorted by text, and are kept. Equal scores are in the given
// order.
func NewPart(of Corpus, terms []CorpusTerm, texts [][]PartText) *Index {
	segments := make([]*Live, len(texts))
	for i, own := range texts {
		segments[i] = partSegment(terms, own).Live(nil)
	}
	x := NewIndex(segments, func(a, b Ref) int {
		if a.Segment != b.Segment {
			return a.Segment - b.Segment
		}
		return a.Text - b.Text
	})
	x.describe(of, terms)
	return x
}

// NewVocabulary returns an Index of the terms of a corpus without its texts: it weighs terms, and
// finds similar ones, but no text. terms is as in NewPart.
func NewVocabulary(of Corpus, terms []CorpusTerm) *Index {
	text := PartText{Length: len(terms), Freqs: make([]int, len(terms))}
	for i := range text.Freqs {
		text.Freqs[i] = 1
	}
	return NewPart(of, terms, [][]PartText{{text}})
}

// describe replaces the statistics of the texts that x holds by those of a corpus.
func (x *Index) describe(of Corpus, terms []CorpusTerm) {
	x.corpus, x.texts = &corpus{terms}, of.Texts
	if of.Texts > 0 {
		x.average = float64(of.Lengths) / float64(of.Texts)
	}
	x.usual = usual(of.Lengths, of.Terms)
	x.bits = max(x.bits, uint(bits.Len(uint(of.Texts))))
	for i := range x.views {
		v := &x.views[i]
		for t, n := range v.segment.lengths {
			v.norms[t] = norm(n, x.average)
		}
	}
}

// partSegment returns a segment in memory. Only terms that a text has are in it.
func partSegment(terms []CorpusTerm, texts []PartText) *Segment {
	s := &Segment{starts: []uint32{0}, offsets: []uint32{0}, frontStarts: []uint32{0}}
	for _, t := range texts {
		s.lengths = append(s.lengths, uint32(t.Length))
	}
	for i, term := range terms {
		before := len(s.postings)
		for n, t := range texts {
			if freq := min(t.Freqs[i], maxFreq); freq > 0 {
				s.postings = append(s.postings, posting(n<<freqBits|freq))
			}
		}
		if len(s.postings) == before {
			continue
		}
		s.starts = append(s.starts, uint32(len(s.postings)))
		s.strings = append(s.strings, term.Text...)
		s.offsets = append(s.offsets, uint32(len(s.strings)))
	}
	d := draft{lengths: s.lengths, postings: s.postings, starts: s.starts, offsets: s.offsets, strings: s.strings}
	s.fronts, s.frontStarts = frontsOf(&d)
	s.heads = s.headsOf()
	return s
}

// SampleTerm returns the term at fraction pick, in [0,1), of all occurrences of terms in texts, in
// the order of terms, as Index.Sample does for an Index of the whole Corpus.
func SampleTerm(terms []CorpusTerm, before []uint64, pick float64) string {
	if len(terms) == 0 {
		return ""
	}
	at := uint64(pick * float64(before[len(terms)]))
	return terms[sort.Search(len(terms), func(i int) bool { return before[i+1] > at })].Text
}

// Before returns, for SampleTerm, the sum of CorpusTerm.Texts of the terms before each, and of all.
func Before(terms []CorpusTerm) []uint64 {
	before := make([]uint64, len(terms)+1)
	for i, t := range terms {
		before[i+1] = before[i] + uint64(t.Texts)
	}
	return before
}
