package retrieval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"sidenote/retrieval/score"
	"sidenote/retrieval/sketch"
)

// A candidate is a chunk on its way through selection. Its source belongs to an
// answer that others may be reading: it is never changed.
type candidate struct {
	source    *Source
	mark      *Mark   // of a text that its engine keeps; nil where the source has the text
	from      int     // number of its answer
	relevance float64 // comparable over bases
	ranks     float64 // what several lists give to its ranks, where they are fused by them
	beyond    float64 // the score of an engine without a floor, which says more where it is above 1
	threshold float64 // least score in its base
	score     float64 // that a Reranker gave
	judged    bool    // by a Reranker
	further   bool    // its answer is to a query of a plan
	text      *content
}

// A content is what a text without a mark is compared by.
type content struct {
	sketch sketch.Sketch
	made   bool     // the engine had no sketch
	terms  []string // where it was made: as they come
	sorted []string // the different ones; nil until they are compared
}

// set returns the different terms, sorted.
func (c *content) set() []string {
	if c.sorted == nil {
		c.sorted = sketch.Set(c.terms)
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
	src.Relevance, src.RerankScore = c.relevance, c.rerankScore()
	return src
}

// rerankScore is the score of a Reranker for an answer, which outlives the candidate.
func (c *candidate) rerankScore() *float64 {
	if !c.judged {
		return nil
	}
	score := c.score
	return &score
}

// rank puts the candidates of all answers into one order, best first. Scores of
// different engines do not compare, but their Relevance does, or their ranks do. Ties are broken by
// identity, so that the same answers always make the same prompt.
func (s *selection) rank(answers []answer) error {
	n, planned := 0, false
	byRanks := s.settings.Fusion == FusionRanks && len(answers) > 1
	for i := range answers {
		n += min(len(answers[i].res.Sources), s.settings.NumCandidates)
	}
	s.marks, s.candidates, s.ranked = slices.Grow(s.marks, n), slices.Grow(s.candidates, n), slices.Grow(s.ranked, n)
	for from := range answers {
		a, further := &answers[from].res, answers[from].further
		planned = planned || further
		found := a.Sources[:min(len(a.Sources), s.settings.NumCandidates)]
		marks := s.marks[len(s.marks) : len(s.marks)+len(found)]
		s.marks = s.marks[:len(s.marks)+len(found)]
		if err := a.marks(found, marks); err != nil {
			return unreadable(from, err)
		}
		for i := range found {
			src := &found[i]
			c := candidate{source: src, from: from, further: further, relevance: score.Relevance(src.Score, a.Floor), threshold: s.settings.threshold(src.Knowledge, a.Floor)}
			if !score.HasFloor(a.Floor) {
				c.beyond = src.Score
			}
			if byRanks {
				c.ranks = byRank(i+1, further)
			}
			if src.At.Kept && a.Texts != nil {
				c.mark = &marks[i]
			}
			s.candidates = append(s.candidates, c)
		}
	}
	if planned {
		s.candidates = fuseQueries(s.candidates)
	}
	for i := range s.candidates {
		s.ranked = append(s.ranked, &s.candidates[i])
	}
	slices.SortFunc(s.ranked, better)
	return nil
}

// better orders candidates, the best first.
func better(a, b *candidate) int {
	switch { // nearly always this decides
	case a.ranks != b.ranks:
		return cmp.Compare(b.ranks, a.ranks)
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
	settings  Settings
	whole     bool // nothing falls
	terms     func(text string) []string
	reranking *Reranking // nil: nothing is reranked
	graded    bool       // by its scores, which are wanted also where there is nothing to order
	query     string     // that it is about

	answers    []answer
	marks      []Mark       // of all candidates, as they were found
	candidates []candidate  // as they were found, too
	ranked     []*candidate // all of them, best first
	chosen     []*candidate
	fallen     []*candidate    // as packed has them
	packed     packer          // what fell
	names      fallenNames     // of what fell, of those whose texts an engine keeps
	hits       []*Source       // those of which an engine is asked
	groups     []group         // of all candidates, the best first; never more than there is room for
	keys       []key           // of the best of each group
	glances    []sketch.Glance // likewise
	doubtful   bool            // a glance does not tell: of some group another one than the best is chosen, or a text has no mark
	beyond     string          // the detail of what came after the list was full
}

// A key tells texts apart that are not the same, without looking at them.
type key struct {
	bytes int
	sum   uint32 // of a mark
	from  int    // number of the answer with that mark; -1 without one
}

func keyOf(c *candidate) key {
	if c.mark == nil {
		return key{bytes: len(c.source.Text), from: -1}
	}
	return key{c.mark.Bytes, c.mark.Sum, c.from}
}

// differs tells whether two texts are not the same.
func (k *key) differs(l *key) bool {
	return k.bytes != l.bytes || k.sum != l.sum && k.from == l.from && k.from >= 0
}

// reset lets go of all that was selected and keeps the memory.
func (s *selection) reset() {
	clear(s.candidates[:cap(s.candidates)])
	clear(s.ranked)
	clear(s.chosen)
	clear(s.fallen)
	clear(s.groups)
	clear(s.hits[:cap(s.hits)])
	*s = selection{
		marks: s.marks[:0], candidates: s.candidates[:0], ranked: s.ranked[:0], chosen: s.chosen[:0], fallen: s.fallen[:0],
		groups: s.groups[:0], keys: s.keys[:0], glances: s.glances[:0], packed: s.packed, names: fallenNames{b: s.names.b[:0]}, hits: s.hits[:0],
	}
}

// add decides on the next best candidate. Duplicates are found among all candidates, and
// fall before the share of a document and the length of the list are looked at. Where the
// best of a group fell for another reason, the next takes its place: a copy of what fell is
// no duplicate of anything that the model reads.
func (s *selection) add(c *candidate) {
	if s.whole {
		s.chosen = append(s.chosen, c)
		return
	}
	g := s.groupOf(c)
	full := len(s.chosen) >= s.settings.TopK
	beyond := s.reranking.beyond(c)
	switch {
	case beyond != "":
		s.drop(c, ExcludedRerank, beyond)
	case !c.passes(): // NaN, too
		s.drop(c, ExcludedScore, "")
	case g.chosen != nil:
		s.drop(c, ExcludedDup, duplicateDetail(c.source.Knowledge, g.chosen.source))
	case g.listed:
		s.drop(c, ExcludedDup, duplicateDetail(c.source.Knowledge, g.best.source))
	case s.ofDocument(c.source) >= s.settings.MaxPerDocument:
		s.drop(c, ExcludedDocument, fmt.Sprintf("%d of %s already", s.settings.MaxPerDocument, c.source.Doc))
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

// duplicateDetail names what was kept in place of a chunk of a base.
func duplicateDetail(knowledge string, better *Source) string {
	if better.Knowledge != knowledge {
		return fmt.Sprintf("duplicate of %s#%d in %s", better.Doc, better.Chunk, better.Knowledge)
	}
	return fmt.Sprintf("duplicate of %s#%d", better.Doc, better.Chunk)
}

// groupOf returns the group with the same text as c, else the best one with a text like that; a
// new one if there is none.
func (s *selection) groupOf(c *candidate) *group {
	k, glance := keyOf(c), s.sketchOf(c).Glance()
	s.doubtful = s.doubtful || c.mark == nil
	like := -1
	for i := range s.glances {
		out := s.glances[i].RulesOut(glance)
		if out && !s.doubtful {
			continue // nearly always
		}
		g := &s.groups[i]
		if !s.keys[i].differs(&k) && s.same(g.best, c) {
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

// likeChosen tells whether c is like that which is chosen of a group, where that is not the best.
func (s *selection) likeChosen(g *group, c *candidate) bool {
	return g.chosen != nil && g.chosen != g.best && s.alike(g.chosen, c)
}

// fewTerms is the number of terms up to which sets are compared as such where there are any.
const fewTerms = 16

// alike tells whether the texts of two candidates are duplicates. By sketches that engines
// have made it is an estimate, see sketch.Sketcher; where one had to be made here, the terms decide
// on what the sketches do not tell apart at once.
func (s *selection) alike(a, b *candidate) bool {
	x, y := s.sketchOf(a), s.sketchOf(b)
	if a.text == nil || b.text == nil || !a.text.made || !b.text.made {
		return x.Similar(y)
	}
	few := min(len(a.text.terms), len(b.text.terms)) <= fewTerms
	return (few || x.Near(y)) && sketch.SimilarSets(a.text.set(), b.text.set())
}

// sketchOf returns the sketch of a candidate's text. Where its engine has made none it is made.
func (s *selection) sketchOf(c *candidate) *sketch.Sketch {
	if c.mark != nil {
		return &c.mark.Sketch
	}
	if c.text == nil {
		read, ok := sketch.Read([]byte(c.source.Sketch))
		if c.text = (&content{sketch: read}); !ok {
			c.text.terms, c.text.made = s.terms(c.source.Text), true
			c.text.sketch = sketch.Of(c.text.terms)
		}
	}
	return &c.text.sketch
}

func (s *selection) ofDocument(src *Source) int {
	n := 0
	for _, c := range s.chosen {
		if c.source.Doc == src.Doc && c.source.Knowledge == src.Knowledge {
			n++
		}
	}
	return n
}

// drop notes why a candidate was left out. At most NumCandidates notes are kept, but at
// least one for each base, so that no base disappears without a reason.
func (s *selection) drop(c *candidate, reason ExcludeReason, detail string) {
	if len(s.fallen) >= s.settings.NumCandidates && s.tells(c.source.Knowledge) {
		return
	}
	src := c.source
	x := Excluded{
		Knowledge: src.Knowledge, Doc: src.Doc, Chunk: src.Chunk, Name: src.Name, Section: src.Section,
		Score: src.Score, Relevance: c.relevance, Arm: src.Arm, ByArm: src.ByArm, RerankScore: c.rerankScore(), At: src.At, Reason: reason, Detail: detail,
	}
	if reason == ExcludedScore {
		x.Least = c.threshold
	}
	s.packed.add(&x)
	s.fallen = append(s.fallen, c)
}

func (s *selection) tells(knowledge string) bool {
	of := func(c *candidate) bool { return c.source.Knowledge == knowledge }
	return slices.ContainsFunc(s.chosen, of) || slices.ContainsFunc(s.fallen, of)
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
// fell; ctx is that of reranking. An error is an *unreadableAnswer.
func (s *selection) choose(ctx context.Context, answers []answer) (Result, error) {
	s.answers = answers
	if err := s.rank(answers); err != nil {
		return Result{}, err
	}
	reranked, err := s.rerank(ctx, answers)
	if err != nil {
		return Result{}, err
	}
	s.groups = slices.Grow(s.groups, len(s.ranked)) // they are pointed to
	res := Result{Retrieved: len(s.ranked), Reranked: reranked}
	if len(answers) == 1 {
		res.Floor = answers[0].res.Floor
	}
	s.packed.reset(res.Floor)
	for _, c := range s.ranked {
		s.add(c)
	}
	res.Unique = len(s.groups)
	if len(s.chosen) > 0 {
		res.Sources = make([]Source, 0, len(s.chosen))
	}
	for _, c := range s.chosen {
		src := c.result()
		src.Sketch = "" // nothing compares it any more
		res.Sources = append(res.Sources, src)
	}
	if err := s.read(answers, &res); err != nil {
		return Result{}, err
	}
	res.Fallen = s.packed.fallen()
	res.Fallen.names = s.names.packed()
	return res, nil
}
