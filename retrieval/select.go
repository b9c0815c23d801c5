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
	from      int     // number of its answer
	texts     Texts   // that have its text; nil where the source has it
	mark      *Mark   // of its text, likewise
	relevance float64 // comparable over bases
	beyond    float64 // the score of an engine without a floor, which says more where it is above 1
	threshold float64 // least score in its base
	text      content // of the source, once compared
}

// A content is what a text is compared by.
type content struct {
	sketch *Sketch  // nil until it is compared
	made   bool     // the engine had no sketch
	terms  []string // where it was made: as they come
	sorted []string // the different ones; nil until they are compared
}

// set returns the different terms, sorted.
func (c *content) set() []string {
	if c.sorted == nil {
		c.sorted = termSet(c.terms)
	}
	return c.sorted
}

// A group is candidates that say the same.
type group struct {
	best   *candidate // the first of them
	chosen *candidate // nil while none is
	listed bool       // best fell only because the list was full
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
func rank(answers []Result, s Settings) ([]candidate, error) {
	n := 0
	for _, a := range answers {
		n += min(len(a.Sources), s.NumCandidates)
	}
	ranked := make([]candidate, 0, n)
	for from := range answers {
		a := &answers[from]
		found := a.Sources[:min(len(a.Sources), s.NumCandidates)]
		marks, err := a.marks(found)
		if err != nil {
			return nil, unreadable(from, err)
		}
		for i := range found {
			src := &found[i]
			c := candidate{source: src, from: from, relevance: Relevance(src.Score, a.Floor), threshold: s.threshold(src.Knowledge, a.Floor)}
			if !hasFloor(a.Floor) {
				c.beyond = src.Score
			}
			if src.At.Kept {
				c.texts, c.mark = a.Texts, &marks[i]
			}
			ranked = append(ranked, c)
		}
	}
	slices.SortFunc(ranked, better)
	return ranked, nil
}

// better orders candidates, the best first.
func better(a, b candidate) int {
	switch { // nearly always this decides
	case a.relevance > b.relevance:
		return -1
	case a.relevance < b.relevance:
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.relevance, a.relevance),
		cmp.Compare(b.beyond, a.beyond),
		cmp.Compare(a.source.Knowledge, b.source.Knowledge),
		cmp.Compare(a.source.Doc, b.source.Doc),
		cmp.Compare(a.source.Chunk, b.source.Chunk),
		cmp.Compare(a.source.Text, b.source.Text),
	)
}

// A selection takes candidates best first and keeps those that make the answer.
type selection struct {
	settings Settings
	terms    func(text string) []string

	chosen   []*candidate
	excluded []Excluded
	fallen   []*candidate // by excluded
	groups   []group      // of all candidates, the best first; never more than there is room for
	beyond   string       // the detail of what came after the list was full
}

// newSelection has room for so many candidates.
func newSelection(s Settings, terms func(string) []string, candidates int) *selection {
	return &selection{
		settings: s, terms: terms, groups: make([]group, 0, candidates), chosen: make([]*candidate, 0, min(s.TopK, candidates)),
		excluded: make([]Excluded, 0, candidates), fallen: make([]*candidate, 0, candidates),
	}
}

// add decides on the next best candidate. Duplicates are found among all candidates, and
// fall before the share of a document and the length of the list are looked at. Where the
// best of a group fell for another reason, the next takes its place: a copy of what fell is
// no duplicate of anything that the model reads.
func (s *selection) add(c *candidate) {
	g := s.groupOf(c)
	full := len(s.chosen) >= s.settings.TopK
	switch {
	case !(c.source.Score >= c.threshold): // so that NaN falls too
		s.drop(c, ExcludedScore, scoreDetail(c.source.Score, c.threshold))
	case g.chosen != nil:
		s.drop(c, ExcludedDup, duplicateDetail(c, g.chosen))
	case g.listed:
		s.drop(c, ExcludedDup, duplicateDetail(c, g.best))
	case s.ofDocument(c.source) >= s.settings.MaxPerDocument:
		s.drop(c, ExcludedDocument, fmt.Sprintf("%d of %s already", s.settings.MaxPerDocument, c.source.Doc))
	case full:
		g.listed = g.best == c
		if s.beyond == "" {
			s.beyond = fmt.Sprintf("after the best %d", s.settings.TopK)
		}
		s.drop(c, ExcludedTopK, s.beyond)
	default:
		g.chosen = c
		s.chosen = append(s.chosen, c)
	}
}

// duplicateDetail names what was kept in place of c.
func duplicateDetail(c, better *candidate) string {
	if of := better.source; of.Knowledge != c.source.Knowledge {
		return fmt.Sprintf("duplicate of %s#%d in %s", of.Doc, of.Chunk, of.Knowledge)
	}
	return fmt.Sprintf("duplicate of %s#%d", better.source.Doc, better.source.Chunk)
}

// groupOf returns the best group with a text like that of c; a new one if there is none.
func (s *selection) groupOf(c *candidate) *group {
	for i := range s.groups {
		if g := &s.groups[i]; g.best.same(c) {
			return g
		}
	}
	for i := range s.groups {
		g := &s.groups[i]
		if s.alike(g.best, c) || g.chosen != nil && g.chosen != g.best && s.alike(g.chosen, c) {
			return g
		}
	}
	s.groups = append(s.groups, group{best: c})
	return &s.groups[len(s.groups)-1]
}

// fewTerms is the number of terms up to which sets are compared as such where there are any.
const fewTerms = 16

// alike tells whether the texts of two candidates are duplicates. By sketches that engines
// have made it is an estimate, see Sketcher; where one had to be made here, the terms decide
// on what the sketches do not tell apart at once.
func (s *selection) alike(a, b *candidate) bool {
	x, y := s.contentOf(a), s.contentOf(b)
	if !x.made || !y.made {
		return x.sketch.similar(y.sketch)
	}
	few := min(len(x.terms), len(y.terms)) <= fewTerms
	return (few || x.sketch.near(y.sketch)) && similar(x.set(), y.set())
}

func (s *selection) contentOf(c *candidate) *content {
	if c.text.sketch != nil {
		return &c.text
	}
	if c.mark != nil {
		c.text.sketch = &c.mark.Sketch
		return &c.text
	}
	read, ok := ReadSketch([]byte(c.source.Sketch))
	if c.text.sketch = &read; !ok {
		c.text.terms, c.text.made = s.terms(c.source.Text), true
		read = sketchOf(c.text.terms)
	}
	return &c.text
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
	src.Text, src.Before, src.After, src.Sketch, src.Tokens = "", "", "", "", 0
	s.excluded = append(s.excluded, Excluded{Source: src, Reason: reason, Detail: detail})
	s.fallen = append(s.fallen, c)
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

// choose turns the answers of bases into sources, with their texts, and the account of what
// fell. An error is an *unreadableAnswer.
func choose(answers []Result, s Settings, terms func(string) []string) (Result, error) {
	ranked, err := rank(answers, s)
	if err != nil {
		return Result{}, err
	}
	sel := newSelection(s, terms, len(ranked))
	for i := range ranked {
		sel.add(&ranked[i])
	}
	res := Result{Excluded: sel.excluded, Retrieved: len(ranked), Unique: len(sel.groups)}
	if len(res.Excluded) == 0 {
		res.Excluded = nil
	}
	if len(answers) == 1 {
		res.Floor = answers[0].Floor
	}
	if len(sel.chosen) > 0 {
		res.Sources = make([]Source, 0, len(sel.chosen))
	}
	for _, c := range sel.chosen {
		src := c.result()
		src.Sketch = "" // nothing compares it any more
		res.Sources = append(res.Sources, src)
	}
	return res, sel.read(answers, &res)
}
