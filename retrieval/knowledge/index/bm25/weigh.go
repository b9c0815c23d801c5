package bm25

import (
	"cmp"
	"slices"
	"strings"
)

// A Term is a part of a question: texts with any of its terms match. Terms given
// several times add up.
type Term struct {
	Text   string
	Weight float64 // 1 is plain BM25; not negative
	Whole  string  // identifier that it is or is a part of, for Settle; "" for none
}

// maxTerms bounds the terms of one search. Of a longer question the rarest count:
// they say what it is about, and the rest is only cost.
const maxTerms = 64

// A question is the terms of a search, weightiest first.
type question []weightedTerm

// A weightedTerm is a term with what its impact is multiplied by.
type weightedTerm struct {
	*known
	factor float32 // weight · idf · repetition · (k1+1) · unit
}

// ByText orders Terms by their texts. A search of terms in that order need not sort them.
func ByText(a, b Term) int { return strings.Compare(a.Text, b.Text) }

// weigh adds repeated terms together and looks them up, see look. The question lies in room if
// that is enough.
func (x *Index) weigh(terms []Term, change *Change, room question) question {
	if !slices.IsSortedFunc(terms, ByText) {
		terms = slices.Clone(terms)
		slices.SortStableFunc(terms, ByText)
	}
	q, weight := room[:0], 0.0
	for i, t := range terms {
		if t.Weight > 0 {
			weight += t.Weight
		}
		if i+1 < len(terms) && terms[i+1].Text == t.Text {
			continue
		}
		if weight > 0 {
			if k := x.look(t.Text, change); k.texts > 0 {
				q = append(q, weightedTerm{k, min(float32(weight*k.weight*(k1+1)*unit), x.mostFactor())})
			}
		}
		weight = 0
	}
	slices.SortStableFunc(q, func(a, b weightedTerm) int { return cmp.Compare(b.factor, a.factor) })
	return q[:min(len(q), maxTerms)]
}

// mostFactor is the greatest factor of a term, so that what maxTerms of them add up to fits
// into the keys of a top. Factors of questions come to about 2^28, and with a million texts in
// the Index this is 2^37.
func (x *Index) mostFactor() float32 { return float32(uint64(1) << (63 - x.bits) / maxTerms) }

const (
	// assumed is the number of texts that are assumed to have a term as often as is usual,
	// beside those that do have it: of a rare name, and in a small base, little is known.
	assumed = 80
	// mostRepeated and mostUsual bound what texts achieve that repeat a term without end.
	// Bases of manuals and abstracts have 1.6 to 1.9, of Chinese paragraphs 1.2.
	mostRepeated = 3
	mostUsual    = 2
)

// usual returns how often a text has a term that it has, over all terms and texts, by the
// lengths of the texts together and the number of different terms in each, added up.
func usual(length, terms uint64) float64 {
	return max(1, min(float64(length)/float64(max(1, terms)), mostUsual))
}

// repetition returns how often texts have a term that they have, as a multiple of what is
// usual, by which the term is weighed: a text repeats the words of its topic, but not
// those of the language that are as rare, such as "now" (K. L. Kwok, A new method of
// weighting query terms for ad-hoc retrieval, 1996). On scientific abstracts and manuals
// that does better than idf alone, on Chinese paragraphs as well.
func (x *Index) repetition(k *known) float64 {
	often := (float64(k.total) + assumed*x.usual) / (float64(k.texts) + assumed)
	return min(often/x.usual, mostRepeated)
}
