package bm25

import (
	"runtime"
	"slices"
	"strings"

	"sidenote/retrieval"
)

// A known is what an Index knows about a term.
type known struct {
	term    string
	texts   int    // number of live texts that contain it
	total   uint64 // sum of its frequencies in them
	idf     float64
	weight  float64  // see Meaning
	average float64  // average length of a text up to which the bounds in entries hold
	in      []entry  // by segment
	few     [1]entry // memory for in
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
func (x *Index) look(term string, change *Change) (k *known) {
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
func learn(x *Index, term string, earlier *known, change *Change) *known {
	defer runtime.KeepAlive(x)
	k := &known{term: strings.Clone(term), average: x.average * boundRoom} // a copy: the text that contains the term may be freed
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
