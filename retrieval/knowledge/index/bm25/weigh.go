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
	// Word is the word of the question that the term was made of; "" for parts and pairs.
	Word string
	// Of, unless "", is a word that the term is an alternative for. The alternatives of one word
	// have one weight and count as one term: the most common of them, as often as a text has the
	// one that it has most.
	Of string
	// Part, if Of is a compound, is the number of the part that it is an alternative for, from 1;
	// 0 for the whole word. Each part counts as a term of its own.
	Part int
	// Kind tells why it is an alternative. Searches ignore it.
	Kind Kind
}

// A Kind tells why a term is an alternative.
type Kind uint8

const (
	Correction Kind = iota + 1 // of a misspelled word
	Compound                   // a word that contains the word or is a part of it
	Synonym                    // a word of the same meaning
)

// For reports whether two terms are alternatives for the same word or part.
func (t *Term) For(other *Term) bool {
	return t.Of == other.Of && t.Part == other.Part && t.Kind == other.Kind
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
	q, weight, alternatives := room[:0], 0.0, false
	for i, t := range terms {
		if t.Of != "" {
			alternatives = true
			continue
		}
		if t.Weight > 0 {
			weight += t.Weight
		}
		if i+1 < len(terms) && terms[i+1].Text == t.Text && terms[i+1].Of == "" {
			continue
		}
		if weight > 0 {
			if k := x.look(t.Text, change); k.texts > 0 {
				q = append(q, weightedTerm{k, min(float32(weight*k.weight*(k1+1)*unit), x.mostFactor())})
			}
		}
		weight = 0
	}
	if alternatives {
		q = x.weighAlternatives(terms, q)
	}
	slices.SortStableFunc(q, func(a, b weightedTerm) int { return cmp.Compare(b.factor, a.factor) })
	return q[:min(len(q), maxTerms)]
}

// weighAlternatives appends a weighted term for each word and part that terms has alternatives for.
func (x *Index) weighAlternatives(terms []Term, q question) question {
	for i := range terms {
		t := &terms[i]
		if t.Of == "" || t.Weight <= 0 || slices.ContainsFunc(terms[:i], func(other Term) bool { return other.For(t) }) {
			continue
		}
		var known []*termStats
		for j := range terms {
			if !terms[j].For(t) {
				continue
			}
			if k := x.look(terms[j].Text, nil); k.texts > 0 {
				known = append(known, k)
			}
		}
		if len(known) > 0 {
			k := x.either(known)
			q = append(q, weightedTerm{k, min(float32(t.Weight*k.weight*(k1+1)*unit), x.mostFactor())})
		}
	}
	return q
}

// mostEither is the most postings of alternatives that are merged; of words with more only the
// first is searched.
const mostEither = 1 << 18

// either returns a term that stands for several. There is at least one.
func (x *Index) either(terms []*termStats) *termStats {
	all := 0
	for _, k := range terms {
		all += k.texts
	}
	if len(terms) == 1 || all > mostEither {
		return terms[0]
	}
	k := *terms[0]
	k.in, k.merged = make([]entry, len(x.views)), make([][]posting, len(x.views))
	k.texts = min(all, x.texts)
	for _, other := range terms[1:] {
		k.idf, k.weight = min(k.idf, other.idf), min(k.weight, other.weight)
	}
	for i := range x.views {
		e := &k.in[i]
		for _, other := range terms {
			in := other.in[i]
			if in.texts == 0 {
				continue
			}
			postings := other.postings(x, i)
			if k.merged[i] == nil {
				k.merged[i] = postings
			} else {
				k.merged[i] = mergePostings(k.merged[i], postings)
			}
			e.texts, e.most = e.texts+in.texts, max(e.most, in.most)
		}
	}
	return &k
}

// mergePostings returns the texts of both lists, with the greater frequency.
func mergePostings(a, b []posting) []posting {
	merged := make([]posting, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch x, y := a[0], b[0]; {
		case x.text() < y.text():
			merged, a = append(merged, x), a[1:]
		case x.text() > y.text():
			merged, b = append(merged, y), b[1:]
		default:
			merged, a, b = append(merged, max(x, y)), a[1:], b[1:]
		}
	}
	return append(append(merged, a...), b...)
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
