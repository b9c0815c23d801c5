package bm25

import (
	"cmp"
	"slices"
	"strings"
)

// A Term is a part of a question: texts with any of its terms match. Repeated terms add up.
type Term struct {
	Text   string
	Weight float64 // 1 for plain BM25; not negative
	Whole  string  // the identifier that it is or is a part of, for WeighIdentifiers; may be ""
}

// maxTerms limits the terms of one search. Of a longer question the rarest are used: they tell
// what it is about.
const maxTerms = 64

// A question is the terms of a search, in descending order of weight.
type question []weightedTerm

// A weightedTerm is a term with the factor of its impact.
type weightedTerm struct {
	*termStats
	factor float32 // weight · idf · repetition · (k1+1) · unit
}

// ByText orders Terms by text. Terms in that order need not be sorted by a search.
func ByText(a, b Term) int { return strings.Compare(a.Text, b.Text) }

// weigh combines repeated terms and looks them up, see look. The question uses room if that is
// large enough.
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

// mostFactor is the greatest factor of a term, such that the sum of maxTerms of them fits into the
// keys of a top. Typical factors are about 2^28; with a million texts in the Index this limit is
// 2^37.
func (x *Index) mostFactor() float32 { return float32(uint64(1) << (63 - x.bits) / maxTerms) }

const (
	// assumed is the number of additional texts that are assumed to contain a term with the usual
	// frequency: little is known about a rare name, and in a small base.
	assumed = 80
	// mostRepeated and mostUsual limit the effect of texts that repeat a term endlessly. Bases of
	// manuals and abstracts have 1.6 to 1.9, of Chinese paragraphs 1.2.
	mostRepeated = 3
	mostUsual    = 2
)

// usual returns the average frequency of a term in a text that contains it, given the total length
// of all texts and the sum of their numbers of distinct terms.
func usual(length, terms uint64) float64 {
	return max(1, min(float64(length)/float64(max(1, terms)), mostUsual))
}

// repetition returns how often texts repeat a term that they contain, relative to the usual
// frequency. It is a factor of the term's weight: a text repeats the words of its topic, but not
// equally rare words of the language such as "now" (K. L. Kwok, A new method of weighting query
// terms for ad-hoc retrieval, 1996). On scientific abstracts and manuals that does better than idf
// alone, on Chinese paragraphs equally well.
func (x *Index) repetition(k *termStats) float64 {
	often := (float64(k.total) + assumed*x.usual) / (float64(k.texts) + assumed)
	return min(often/x.usual, mostRepeated)
}
