package retrieval

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// A candidate is a chunk on its way through selection. Its source belongs to an
// answer that others may be reading: it is never changed.
type candidate struct {
	source    *Source
	relevance float64  // comparable over bases
	beyond    float64  // the score of an engine without a floor, which says more where it is above 1
	threshold float64  // least score in its base
	terms     []string // of the source's text, sorted; nil until compared
}

// result is the source as the answer has it.
func (c *candidate) result() Source {
	src := *c.source
	src.Relevance = c.relevance
	return src
}

// rank puts the candidates of all answers into one order, best first. Scores of
// different engines do not compare, but their Relevance does. Ties are broken by
// identity, so that the same answers always make the same prompt.
func rank(answers []Result, s Settings) []candidate {
	n := 0
	for _, a := range answers {
		n += min(len(a.Sources), s.NumCandidates)
	}
	ranked := make([]candidate, 0, n)
	for _, a := range answers {
		for i := range a.Sources[:min(len(a.Sources), s.NumCandidates)] {
			src := &a.Sources[i]
			c := candidate{source: src, relevance: Relevance(src.Score, a.Floor), threshold: s.threshold(src.Knowledge, a.Floor)}
			if !hasFloor(a.Floor) {
				c.beyond = src.Score
			}
			ranked = append(ranked, c)
		}
	}
	slices.SortFunc(ranked, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(b.relevance, a.relevance),
			cmp.Compare(b.beyond, a.beyond),
			cmp.Compare(a.source.Knowledge, b.source.Knowledge),
			cmp.Compare(a.source.Doc, b.source.Doc),
			cmp.Compare(a.source.Chunk, b.source.Chunk),
			cmp.Compare(a.source.Text, b.source.Text),
		)
	})
	return ranked
}

// A selection takes candidates best first and keeps those that make the answer.
type selection struct {
	settings Settings
	terms    func(text string) []string

	chosen   []*candidate
	excluded []Excluded
	unique   int
}

// add decides on the next best candidate. A candidate is compared with what is
// chosen only, for a copy of a chunk that fell is no duplicate of anything the
// model reads. Once the list is full, only equal texts are still told apart from
// other chunks: analysing dozens of texts to label what falls anyway would cost
// more than the search.
func (s *selection) add(c *candidate) {
	if !(c.source.Score >= c.threshold) { // so that NaN falls too
		s.drop(c, ExcludedScore, scoreDetail(c.source.Score, c.threshold))
		return
	}
	full := len(s.chosen) >= s.settings.TopK
	if better := s.duplicated(c, full); better != nil {
		s.drop(c, ExcludedDup, fmt.Sprintf("duplicate of %s#%d", better.Doc, better.Chunk))
		return
	}
	s.unique++
	switch {
	case s.ofDocument(c.source) >= s.settings.MaxPerDocument:
		s.drop(c, ExcludedDocument, fmt.Sprintf("%d of %s already", s.settings.MaxPerDocument, c.source.Doc))
	case full:
		s.drop(c, ExcludedTopK, fmt.Sprintf("after the best %d", s.settings.TopK))
	default:
		s.chosen = append(s.chosen, c)
	}
}

// duplicated returns the chosen source of which c is a duplicate, or nil.
func (s *selection) duplicated(c *candidate, onlyEqual bool) *Source {
	for _, better := range s.chosen {
		if better.source.Text == c.source.Text {
			return better.source
		}
	}
	if onlyEqual {
		return nil
	}
	for _, better := range s.chosen {
		if similar(s.termsOf(better), s.termsOf(c)) {
			return better.source
		}
	}
	return nil
}

func (s *selection) termsOf(c *candidate) []string {
	if c.terms == nil {
		c.terms = termSet(s.terms(c.source.Text))
	}
	return c.terms
}

func (s *selection) ofDocument(src *Source) int {
	n := 0
	for _, c := range s.chosen {
		if c.source.Knowledge == src.Knowledge && c.source.Doc == src.Doc {
			n++
		}
	}
	return n
}

// drop notes why a candidate was left out. At most NumCandidates notes are kept, but at
// least one for each base, so that no base disappears without a reason.
func (s *selection) drop(c *candidate, reason ExcludeReason, detail string) {
	if len(s.excluded) >= s.settings.NumCandidates && s.tells(c.source.Knowledge) {
		return
	}
	src := c.result()
	src.Text, src.Before, src.After, src.Tokens = "", "", "", 0
	s.excluded = append(s.excluded, Excluded{Source: src, Reason: reason, Detail: detail})
}

func (s *selection) tells(knowledge string) bool {
	return slices.ContainsFunc(s.chosen, func(c *candidate) bool { return c.source.Knowledge == knowledge }) ||
		slices.ContainsFunc(s.excluded, func(e Excluded) bool { return e.Source.Knowledge == knowledge })
}

// scoreDetail writes "score 1.1 < 3.0", with as many decimals as it takes to
// show the difference.
func scoreDetail(score, threshold float64) string {
	const most = 6
	for decimals := 1; ; decimals++ {
		a := strconv.FormatFloat(score, 'f', decimals, 64)
		b := strconv.FormatFloat(threshold, 'f', decimals, 64)
		if a != b || decimals == most {
			return "score " + a + " < " + b
		}
	}
}

// choose turns the answers of bases into sources and the account of what fell.
func choose(answers []Result, s Settings, terms func(string) []string) Result {
	ranked := rank(answers, s)
	sel := selection{settings: s, terms: terms}
	for i := range ranked {
		sel.add(&ranked[i])
	}
	res := Result{Excluded: sel.excluded, Retrieved: len(ranked), Unique: sel.unique}
	for _, c := range sel.chosen {
		res.Sources = append(res.Sources, c.result())
	}
	return res
}
