package retrieval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A group is a set of candidates that duplicate each other.
type group struct {
	best   *candidate // the first, and best ranked
	chosen *candidate // nil if none is chosen
	listed bool       // best was excluded only because the list was full
}

// rank puts the candidates of all answers into one order, best first. Scores of different engines
// are not comparable, but their Relevance is, and so are their ranks. Ties are broken by identity,
// so that the same answers always make the same prompt.
func (s *selection) rank(answers []answer) error {
	n, planned := 0, false
	byRanks := s.settings.Fusion == FusionRanks && len(answers) > 1
	for i := range answers {
		n += len(answers[i].res.Hits) + len(answers[i].res.Sources)
	}
	s.marked, s.candidates, s.ranked = slices.Grow(s.marked, n), slices.Grow(s.candidates, n), slices.Grow(s.ranked, n) // kept in place: there are pointers into them
	for from := range answers {
		a, further := &answers[from].res, answers[from].further
		planned = planned || further
		first := len(s.candidates)
		if err := s.found(from, a); err != nil {
			return unreadable(from, err)
		}
		for i := range s.candidates[first:] {
			c := &s.candidates[first+i]
			c.at, c.further = first+i, further
			c.relevance, c.threshold = Relevance(c.own, a.Floor), s.settings.threshold(c.knowledge, a.Floor)
			if c.threshold == a.Floor && s.reranking == nil { // a Reranker judges all
				c.threshold = max(c.threshold, a.Least)
			}
			if !hasFloor(a.Floor) {
				c.beyond = c.own
			}
			if byRanks {
				c.ranks = byRank(i+1, further)
			}
		}
	}
	if planned {
		s.candidates = s.fuseQueries(s.candidates)
	}
	for i := range s.candidates {
		s.ranked = append(s.ranked, &s.candidates[i])
	}
	if !slices.IsSortedFunc(s.ranked, s.compare) { // one engine's answer is sorted
		slices.SortStableFunc(s.ranked, s.compare)
	}
	if !s.given && !byRanks && !planned {
		s.weighEvidence()
	}
	return nil
}

// found adds the candidates of an answer.
func (s *selection) found(from int, a *Result) error {
	for i := range a.Hits[:min(len(a.Hits), s.settings.NumCandidates)] {
		h := &a.Hits[i]
		s.candidates = append(s.candidates, candidate{hit: h, knowledge: a.Bases[h.Base].Knowledge, from: from, own: h.Score})
	}
	first := len(s.marked)
	for i := range a.Sources[:min(len(a.Sources), s.settings.NumCandidates)] {
		src := &a.Sources[i]
		c := candidate{source: src, knowledge: src.Knowledge, from: from, own: src.Score}
		if src.At.Kept && a.Texts != nil {
			s.marked = append(s.marked, Hit{At: src.At, Score: src.Score, Arm: src.Arm, ByArm: src.ByArm})
			c.hit = &s.marked[len(s.marked)-1]
		}
		s.candidates = append(s.candidates, c)
	}
	if len(s.marked) == first {
		return nil
	}
	return a.Texts.Mark(s.marked[first:])
}

// compare orders candidates, best first.
func (s *selection) compare(a, b *candidate) int {
	if s.given {
		return cmp.Or(cmp.Compare(b.own, a.own), cmp.Compare(a.at, b.at))
	}
	switch { // decides nearly always
	case a.ranks != b.ranks:
		return cmp.Compare(b.ranks, a.ranks)
	case a.relevance > b.relevance:
		return -1
	case a.relevance < b.relevance:
		return 1
	case a.from == b.from && a.source == nil && b.source == nil: // hits are in order
		return cmp.Compare(a.at, b.at)
	}
	if c := cmp.Or(cmp.Compare(b.beyond, a.beyond), cmp.Compare(a.knowledge, b.knowledge)); c != 0 {
		return c
	}
	doc, chunk := s.answers.identity(a)
	other, its := s.answers.identity(b)
	if c := cmp.Or(cmp.Compare(doc, other), cmp.Compare(chunk, its)); c != 0 || a.source == nil || b.source == nil {
		return c
	}
	return cmp.Compare(a.source.Text, b.source.Text)
}

// A selection takes candidates, best first, and keeps those that become sources.
type selection struct {
	settings  Settings
	whole     bool // exclude nothing
	given     bool // the candidates are a caller's own, see Choose
	terms     func(text string) []string
	reranking *Reranking // nil: no reranking
	graded    bool       // rerank scores are needed for grading, even if there is nothing to order
	query     string     // query text for the Reranker
	question  question
	recent    *Recent[readText] // may be nil
	editions  *Recent[edition]  // likewise

	answers    answers
	marked     []Hit        // sources whose texts the engine keeps
	candidates []candidate  // in the order found
	ranked     []*candidate // all candidates, best first
	chosen     []*candidate
	excluded   []exclusion
	writer     excludedWriter
	sources    []*Source    // scratch: sources to read from one engine
	groups     []group      // of all candidates, best first; never grows beyond its capacity
	keys       []key        // of the best of each group
	glances    []glance     // likewise
	older      int          // number of candidates excluded as older versions
	apart      bool         // no two texts are near
	doubtful   bool         // glances do not decide: a chosen one is not the best, or a text is no hit
	beyond     string       // detail of candidates after the list was full
	labelled   []*candidate // scratch: candidates of one engine
	hits       []*Hit       // scratch: their hits
	heads      []int        // indices in ranked of the first of each family
	named      []glance     // of candidates whose paths say a date or a version
	byDocument []evidence   // of the ranked candidates
	byBase     []evidence   // likewise
}

// A key tells different texts apart without reading them.
type key struct {
	bytes int
	sum   uint32 // Mark.Sum
	from  int    // number of the answer that Sum is comparable in; -1 without one
}

func keyOf(c *candidate) key {
	if c.hit == nil {
		return key{bytes: len(c.source.Text), from: -1}
	}
	return key{c.hit.Bytes, c.hit.Sum, c.from}
}

// differs reports whether two texts are certainly different.
func (k *key) differs(l *key) bool {
	return k.bytes != l.bytes || k.sum != l.sum && k.from == l.from && k.from >= 0
}

// reset drops all references and keeps the memory.
func (s *selection) reset() {
	clear(s.candidates)
	clear(s.ranked)
	clear(s.chosen)
	clear(s.excluded)
	clear(s.groups)
	clear(s.marked)
	clear(s.sources[:cap(s.sources)])
	clear(s.labelled[:cap(s.labelled)])
	clear(s.hits[:cap(s.hits)])
	clear(s.byDocument)
	clear(s.byBase)
	s.writer.reset()
	*s = selection{
		marked: s.marked[:0], candidates: s.candidates[:0], ranked: s.ranked[:0], chosen: s.chosen[:0], excluded: s.excluded[:0],
		groups: s.groups[:0], keys: s.keys[:0], glances: s.glances[:0], writer: s.writer, sources: s.sources[:0],
		labelled: s.labelled[:0], hits: s.hits[:0], heads: s.heads[:0], named: s.named[:0], byDocument: s.byDocument[:0], byBase: s.byBase[:0],
	}
}

// add decides on the next best candidate. Duplicates are found among all candidates, and excluded
// before the limits per document and for the list apply. If the best of a group was excluded for
// another reason, the next one takes its place: a copy of an excluded chunk duplicates nothing
// that the model reads.
func (s *selection) add(c *candidate) {
	if s.whole {
		s.chosen = append(s.chosen, c)
		return
	}
	beyond := s.reranking.beyond(c)
	if beyond == "" && c.newer != nil && c.passes() && c.replaced() && slices.Contains(s.chosen, c.newer) { // whatever it duplicates
		doc, _ := s.answers.identity(c.newer)
		s.drop(c, ExcludedVersion, "older version of "+doc)
		s.older++
		return
	}
	g := s.groupOf(c)
	full := len(s.chosen) >= s.settings.TopK
	switch {
	case beyond != "":
		s.drop(c, ExcludedRerank, beyond)
	case !c.passes(): // false for NaN, too
		s.drop(c, ExcludedScore, "")
	case g.chosen != nil:
		s.drop(c, ExcludedDup, s.duplicateOf(c, g.chosen))
	case g.listed:
		s.drop(c, ExcludedDup, s.duplicateOf(c, g.best))
	case c.newer != nil && slices.Contains(s.chosen, c.newer):
		doc, _ := s.answers.identity(c.newer)
		s.drop(c, ExcludedVersion, "older version of "+doc)
	case s.variantsOf(c) >= s.settings.MaxVariants:
		s.drop(c, ExcludedVariant, fmt.Sprintf("%d variants of it already", s.settings.MaxVariants))
	case s.ofDocument(c) >= s.settings.MaxPerDocument:
		doc, _ := s.answers.identity(c)
		s.drop(c, ExcludedDocument, fmt.Sprintf("%d of %s already", s.settings.MaxPerDocument, doc))
	case full:
		g.listed = g.best == c
		if s.beyond == "" {
			s.beyond = fmt.Sprintf("after the best %d", s.settings.TopK)
		}
		s.drop(c, ExcludedTopK, s.beyond)
	default:
		g.chosen, s.doubtful = c, s.doubtful || g.best != c
		s.chosen = append(s.chosen, c)
	}
}

// replaced reports whether the text of a candidate surely differs from that of its newer version.
func (c *candidate) replaced() bool {
	k, newer := keyOf(c), keyOf(c.newer)
	return k.differs(&newer)
}

// variantsOf counts the chosen variants of a candidate that the question does not name.
func (s *selection) variantsOf(c *candidate) (n int) {
	if c.family == 0 || c.singled {
		return 0
	}
	for _, other := range s.chosen {
		if other.family == c.family {
			n++
		}
	}
	return n
}

// duplicateOf returns the detail of c, a duplicate of better.
func (s *selection) duplicateOf(c, better *candidate) string {
	doc, chunk := s.answers.identity(better)
	return duplicateDetail(c.knowledge, better.knowledge, doc, chunk)
}

// groupOf returns the group with the same text as c, else the best one with a similar text, else a
// new one.
func (s *selection) groupOf(c *candidate) *group {
	k, glance := keyOf(c), s.glanceOf(c)
	s.doubtful = s.doubtful || c.hit == nil
	like := -1
	glances := s.glances
	if s.apart {
		glances = nil
	}
	for i := range glances {
		out := s.glances[i].RulesOut(glance)
		if out && !s.doubtful {
			continue // nearly always
		}
		g := &s.groups[i]
		if !s.keys[i].differs(&k) && s.answers.same(g.best, c) {
			return g
		}
		if like < 0 && (!out && s.alike(g.best, c) || s.likeChosen(g, c)) {
			like = i
		}
	}
	if like >= 0 {
		return &s.groups[like]
	}
	s.groups, s.keys, s.glances = append(s.groups, group{best: c}), append(s.keys, k), append(s.glances, glance)
	return &s.groups[len(s.groups)-1]
}

// likeChosen reports whether c is similar to the chosen candidate of a group, if that is not the
// best.
func (s *selection) likeChosen(g *group, c *candidate) bool {
	return g.chosen != nil && g.chosen != g.best && s.alike(g.chosen, c)
}

// fewTerms is the number of terms up to which term sets are compared exactly, if they are known.
const fewTerms = 16

// alike reports whether the texts of two candidates are duplicates.
func (s *selection) alike(a, b *candidate) bool { return s.similar(a, b) && !s.distinguished(a, b) }

// similar reports whether the texts of two candidates have nearly the same terms. Sketches made by
// engines give an estimate, see Sketcher; if both sketches were made here, the terms decide in all
// but clear cases.
func (s *selection) similar(a, b *candidate) bool {
	x, y := s.sketchOf(a), s.sketchOf(b)
	if a.text == nil || b.text == nil || !a.text.made || !b.text.made {
		return x.Similar(y)
	}
	few := min(len(a.text.terms), len(b.text.terms)) <= fewTerms
	return (few || x.MaybeSimilar(y)) && similarSets(a.text.set(), b.text.set())
}

// glanceOf returns the glance of a candidate's text.
func (s *selection) glanceOf(c *candidate) glance {
	if c.hit != nil {
		return c.hit.Glance
	}
	return s.sketchOf(c).Glance()
}

// sketchOf returns the sketch of a candidate's text, and makes it if the engine has none.
func (s *selection) sketchOf(c *candidate) *Sketch {
	if c.text != nil {
		return &c.text.sketch
	}
	c.text = new(content)
	if c.hit != nil {
		c.text.sketch = s.answers.sketch(c)
		return &c.text.sketch
	}
	read, ok := ReadSketch([]byte(c.source.Sketch))
	if c.text.sketch = read; !ok {
		c.text.terms, c.text.made = s.terms(c.source.Text), true
		c.text.sketch = SketchOf(c.text.terms)
	}
	return &c.text.sketch
}

// ofDocument counts the chosen chunks of a candidate's document.
func (s *selection) ofDocument(c *candidate) int {
	n := 0
	for _, other := range s.chosen {
		if s.sameDocument(other, c) {
			n++
		}
	}
	return n
}

func (s *selection) sameDocument(a, b *candidate) bool {
	if a.from == b.from && a.hit != nil && b.hit != nil { // of one engine
		return a.hit.Document == b.hit.Document && a.hit.At.Segment == b.hit.At.Segment
	}
	if a.knowledge != b.knowledge {
		return false
	}
	doc, _ := s.answers.identity(a)
	other, _ := s.answers.identity(b)
	return doc == other && (doc != "" || !s.given)
}

// drop excludes a candidate. At most NumCandidates exclusions are recorded, but at least one for
// each base without a source, so that no base disappears without a reason.
func (s *selection) drop(c *candidate, reason ExcludeReason, detail string) {
	if len(s.excluded) < s.settings.NumCandidates || !s.tells(c.knowledge) {
		s.excluded = append(s.excluded, exclusion{c, reason, detail})
	}
}

func (s *selection) tells(knowledge string) bool {
	return slices.ContainsFunc(s.chosen, func(c *candidate) bool { return c.knowledge == knowledge }) ||
		slices.ContainsFunc(s.excluded, func(f exclusion) bool { return f.knowledge == knowledge })
}

// Choose selects among sources that a caller has found itself: highest score first, equal scores
// in the given order, without duplicates, and at most maxPerDocument of each document. A source
// with an empty Doc is a document of its own. terms returns the content terms of a text.
func Choose(sources []Source, maxPerDocument int, terms func(text string) []string) (res Result, err error) {
	n := len(sources)
	s := selection{given: true, terms: terms, settings: Settings{TopK: n, NumCandidates: n, MaxPerDocument: maxPerDocument, MaxVariants: n, ScoreThreshold: AutoThreshold}}
	err = s.choose(context.Background(), []answer{{res: Result{Sources: sources}}}, &res)
	return res, err
}

// choose turns the answers of bases into sources with their texts, and records the excluded
// candidates; ctx limits reranking. An error is an *unreadableAnswer.
func (s *selection) choose(ctx context.Context, answers []answer, res *Result) error {
	s.answers = answers
	if err := s.rank(answers); err != nil {
		return err
	}
	reranked, err := s.rerank(ctx, answers)
	if err != nil {
		return err
	}
	if err := s.arrange(); err != nil {
		return err
	}
	s.groups = slices.Grow(s.groups, len(s.ranked)) // pointers into it must stay valid
	*res = Result{Retrieved: len(s.ranked), Reranked: reranked}
	if len(answers) == 1 {
		res.Floor = answers[0].res.Floor
	}
	for _, c := range s.ranked {
		s.add(c)
	}
	res.Unique = len(s.groups) + s.older
	if len(s.chosen) > 0 {
		res.Sources = make([]Source, 0, len(s.chosen))
	}
	for _, c := range s.chosen {
		src := c.result()
		src.Sketch, src.Attributes = "", "" // no longer compared
		res.Sources = append(res.Sources, src)
	}
	if err := s.answers.read(s.chosen, res.Sources, &s.sources); err != nil {
		return err
	}
	res.Excluded, err = s.writer.write(answers, s.excluded, res.Floor)
	return err
}
