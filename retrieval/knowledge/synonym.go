package knowledge

import (
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// synonymWeight is the weight of a synonym, relative to the word.
	synonymWeight = 0.4
	// mostSynonyms is how many terms of synonyms are searched.
	mostSynonyms = 32
)

// appendSynonyms appends the synonyms of what a text says, as alternatives; terms are those of the
// text, in its order. The words of a phrase are searched as parts.
func appendSynonyms(also, terms []bm25.Term, list *retrieval.Synonyms, weight float64) []bm25.Term {
	for i := range terms {
		for _, rule := range list.Rules[terms[i].Text] {
			if len(rule.Terms) > len(terms)-i || !slices.EqualFunc(rule.Terms, terms[i:i+len(rule.Terms)], func(a string, b bm25.Term) bool { return a == b.Text }) {
				continue
			}
			part := 0
			for _, phrase := range rule.Alternatives {
				for _, text := range phrase {
					t := bm25.Term{Text: text, Weight: synonymWeight * weight, Of: terms[i].Text, Word: terms[i].Word, Kind: bm25.Synonym}
					if len(phrase) > 1 {
						part++
						t.Part, t.Weight = part, t.Weight/float64(len(phrase))
					}
					if len(also) < mostSynonyms && !said(terms, &t) && !said(also, &t) {
						also = append(also, t)
					}
				}
			}
		}
	}
	return also
}

// said reports whether terms have a synonym already.
func said(terms []bm25.Term, t *bm25.Term) bool {
	return slices.ContainsFunc(terms, func(other bm25.Term) bool { return other.Text == t.Text && (other.Of == "" || other.For(t)) })
}
