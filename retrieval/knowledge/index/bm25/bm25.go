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
	"slices"
	"strings"
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
	known   retrieval.Recent[termStats]
	scratch sync.Pool // *scratch
	corpus  *corpus   // of a part, see NewPart; nil if all texts are here
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

const (
	// wholeWeight is the weight of an identifier that is in the Index, relative to a word: who
	// names one asks about it.
	wholeWeight = 1.5
	// partWeight is the weight of its parts then, so that it is not counted twice: the identifier
	// and two parts weigh about as much as two words.
	partWeight = 0.3
)

// WeighIdentifiers returns terms with the weights of identifiers and their parts in this Index. If
// no live text contains an identifier, its parts weigh as much as words, and it is left out if it
// has parts; so are its letters and other numbers if no live text contains one of its numbers,
// because PAY-4021 does not answer a question about PAY-4022. Without identifiers it returns terms
// itself; otherwise it uses room if that is large enough.
func (x *Index) WeighIdentifiers(terms, room []Term) []Term {
	var few [4]identifier
	wholes := x.wholes(terms, few[:0])
	if len(wholes) == 0 {
		return terms
	}
	settled := slices.Grow(room[:0], len(terms))
	for _, t := range terms {
		in, own := find(wholes, t.Whole), find(wholes, t.Text)
		switch {
		case in != nil && in != own && in.here:
			t.Weight *= partWeight
		case in != nil && in != own && in.other && short(t.Text) && x.look(t.Text, nil).texts > 0:
			continue
		case own == nil:
		case own.here:
			t.Weight *= wholeWeight
		case own.parts:
			continue
		}
		settled = append(settled, t)
	}
	return settled
}

// An identifier is a Whole of some terms.
type identifier struct {
	text  string
	parts bool // whether terms contain parts of it
	here  bool // whether a live text contains it
	other bool // whether it has a number that no live text contains
}

const (
	// leastNumber is the number of digits from which a number tells identifiers apart.
	leastNumber = 3
	// mostCode is the length of the longest part of an identifier that says nothing without its
	// number.
	mostCode = 5
)

// short reports whether a part of an identifier says nothing without the other parts.
func short(part string) bool { return len(part) <= mostCode || isNumber(part) }

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

// wholes returns the identifiers in terms. It uses room if that is large enough.
func (x *Index) wholes(terms []Term, room []identifier) []identifier {
	wholes := room
	for _, t := range terms {
		if t.Whole == "" {
			continue
		}
		w := find(wholes, t.Whole)
		if w == nil {
			wholes = append(wholes, identifier{text: t.Whole, here: x.look(t.Whole, nil).texts > 0})
			w = &wholes[len(wholes)-1]
		}
		w.parts = w.parts || t.Text != t.Whole
		w.other = w.other || len(t.Text) >= leastNumber && isNumber(t.Text) && x.look(t.Text, nil).texts == 0
	}
	return wholes
}

func find(wholes []identifier, text string) *identifier {
	if i := slices.IndexFunc(wholes, func(w identifier) bool { return w.text == text }); i >= 0 {
		return &wholes[i]
	}
	return nil
}

// A termStats is what an Index knows about a term.
type termStats struct {
	term    string
	texts   int    // number of live texts that contain it
	total   uint64 // sum of its frequencies in them
	idf     float64
	weight  float64  // see Meaning
	average float64  // average length of a text up to which the bounds in entries hold
	in      []entry  // by segment
	few     [1]entry // memory for in

	merged [][]posting // by segment, of a term that stands for several, see either; else nil
}

// postings returns the postings of the term in a segment that contains it.
func (k *termStats) postings(x *Index, segment int) []posting {
	if k.merged != nil {
		return k.merged[segment]
	}
	return x.views[segment].segment.of(k.in[segment].id)
}

// An entry is a term in a segment.
type entry struct {
	id    uint32  // its number there, or that of the first term after it
	texts uint32  // number of live texts that contain it; may be 0
	total uint32  // sum of its frequencies, which is less than 1<<32 for MaxTexts texts
	most  float32 // upper bound of its impact
}

const (
	// boundRoom is how much the average length may grow before bounds must be computed again: each
	// change of a base moves the average a little.
	boundRoom = 1 + 1.0/256
	// boundSpoil is how much the average length may fall below that of the bounds before they are
	// computed again because they are loose.
	boundSpoil = 1 + 1.0/64
)

// look looks a term up in every segment, using what was known before change, which may be nil.
// Results are cached: terms are looked up again, even in the same search, and a look-up takes some
// 0.1 µs per segment.
func (x *Index) look(term string, change *Change) (k *termStats) {
	hash := retrieval.HashText(term)
	if k = x.known.At(hash); k != nil && k.term == term {
		return k
	}
	if change == nil {
		k = learn(x, term, nil, nil)
	} else if k = change.known[term]; k == nil {
		k = learn(x, term, change.earlier[term], change)
		change.known[k.term] = k
	}
	x.known.Put(hash, k)
	return k
}

// learn collects what is known about a term. earlier, unless nil, is what was known before a
// change: entries of unchanged segments are reused.
func learn(x *Index, term string, earlier *termStats, change *Change) *termStats {
	defer runtime.KeepAlive(x)
	k := &termStats{term: strings.Clone(term), average: x.average * boundRoom} // a copy: the text that contains the term may be freed
	k.in = slices.Grow(k.few[:0], len(x.views))[:len(x.views)]
	hold := earlier != nil && x.average <= earlier.average && earlier.average <= x.average*boundSpoil
	if hold {
		k.average = earlier.average
	}
	for i := range x.views {
		v, e := &x.views[i], &k.in[i]
		was := origin{segment: -1}
		if earlier != nil {
			was = change.from[i]
		}
		switch {
		case was.segment < 0:
			id, here := v.segment.find(term)
			*e = v.entry(id, here, k.average)
		case was.same && hold:
			*e = earlier.in[was.segment]
		default:
			id := earlier.in[was.segment].id
			*e = v.entry(id, int(id) < v.segment.terms() && string(v.segment.term(id)) == term, k.average)
		}
		k.texts += int(e.texts)
		k.total += uint64(e.total)
	}
	if x.corpus != nil {
		t := x.corpus.find(term)
		k.texts, k.total = t.Texts, t.Total
	}
	k.idf = idf(x.texts, k.texts)
	k.weight = k.idf * x.repetition(k)
	return k
}

// entry returns the entry of the term with a number; here is false if the term is not in the
// segment. The bound holds for texts up to an average length.
func (v *view) entry(id uint32, here bool, average float64) entry {
	if !here || v.count(id) == 0 {
		return entry{id: id}
	}
	return entry{id, uint32(v.count(id)), uint32(v.total(id)), v.most(id, average)}
}
