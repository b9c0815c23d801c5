package retrieval

import (
	"cmp"
	"slices"
)

const (
	// documentEvidence is the weight of what was found of a candidate's document, and
	// furtherEvidence the weight of each further hit relative to the one before. baseEvidence is
	// how much more a candidate counts if all of the best candidates are of its base.
	//
	// They were chosen on six manuals (deploy/manuals.sh): sources of other documents than the one
	// that answers fall from 67 to 57 %, and those of another base from 17 to 12 %. With .4 and .4
	// they are 52 and 10 %, but the tests of a function, which repeat its words in every case, come
	// before it and its page in a tree of code.
	documentEvidence = .3
	furtherEvidence  = .5
	baseEvidence     = .25
	// baseDecay is the weight of a candidate as evidence for its base, relative to the next better
	// one.
	baseDecay = .9
)

// An evidence is a document or a base of which candidates were found.
type evidence struct {
	first  *candidate
	found  float64 // sum of their strengths, each with its weight
	weight float64 // of the next one
}

// weighEvidence orders the ranked candidates anew: of two that answer about equally well, the one
// comes first of whose document, and then of whose base, more was found. A question about rebasing
// finds many parts of the page on rebase, and one each of many other pages. Scores, and so
// thresholds, stay as they are. (J. P. Callan, Passage-level evidence in document retrieval, 1994;
// for bases: J. P. Callan et al., Searching distributed collections with inference networks, 1995)
func (s *selection) weighEvidence() {
	all, weight := 0.0, 1.0
	for _, c := range s.ranked {
		if c.relevance >= belowOne { // scores that are no relevances tell order alone
			s.byRelevance()
			return
		}
		c.strength = c.relevance / (1 - c.relevance) // multiple of the floor
		c.document, c.base = s.documentOf(c), s.baseOf(c)
		d, b := &s.byDocument[c.document], &s.byBase[c.base]
		d.found += d.weight * c.strength
		d.weight *= furtherEvidence
		b.found += weight * c.strength
		all += weight * c.strength
		weight *= baseDecay
	}
	if !(all > 0) || len(s.byDocument) == len(s.ranked) && len(s.byBase) == 1 {
		s.byRelevance()
		return
	}
	for _, c := range s.ranked {
		c.strength = (c.strength + documentEvidence*s.byDocument[c.document].found) * (1 + baseEvidence*s.byBase[c.base].found/all)
	}
	slices.SortStableFunc(s.ranked, func(a, b *candidate) int { return cmp.Compare(b.strength, a.strength) })
}

// byRelevance leaves the candidates in the order of their relevance.
func (s *selection) byRelevance() {
	for _, c := range s.ranked {
		c.strength = 0
	}
}

// documentOf returns the index in s.byDocument of a candidate's document.
func (s *selection) documentOf(c *candidate) int {
	for i := range s.byDocument {
		if s.sameDocument(s.byDocument[i].first, c) {
			return i
		}
	}
	s.byDocument = append(s.byDocument, evidence{first: c, weight: 1})
	return len(s.byDocument) - 1
}

// baseOf returns the index in s.byBase of a candidate's base.
func (s *selection) baseOf(c *candidate) int {
	for i := range s.byBase {
		if s.byBase[i].first.knowledge == c.knowledge {
			return i
		}
	}
	s.byBase = append(s.byBase, evidence{first: c})
	return len(s.byBase) - 1
}
