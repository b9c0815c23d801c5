package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// Questions embeds questions. A vector that is too late for a caller is kept for the next.
type Questions interface {
	// Question returns the vector of a tenant's question. It returns early when ctx ends.
	Question(ctx context.Context, tenant, text string) ([]float32, error)
}

// A pendingVector is a question vector that is computed while words are searched.
type pendingVector struct {
	came   chan askedVector
	weight float64 // of cosines, see retrieval.Settings.DenseWeight; 0: as measured for each base
	fusion retrieval.Fusion
}

type askedVector struct {
	vector []float32
	err    error
}

// ask starts to embed a question. It returns nil if the extent has no vectors to compare with.
func (g *Group) ask(ctx context.Context, q *retrieval.Query, e *extent) *pendingVector {
	if g.Questions == nil || e.content.vectors == nil {
		return nil
	}
	return g.begin(ctx, q)
}

// begin is ask for an extent with vectors. It is separate so that the query escapes only here.
func (g *Group) begin(ctx context.Context, q *retrieval.Query) *pendingVector {
	a := &pendingVector{came: make(chan askedVector, 1), weight: q.Settings.DenseWeight, fusion: q.Settings.Fusion} // buffered: nobody may wait for a late vector
	tenant, text := q.Tenant, wholeQuestion(q)
	go func() {
		var v askedVector
		defer func() {
			if value := recover(); value != nil {
				v.err = fmt.Errorf("panic: %v", value)
			}
			a.came <- v
		}()
		v.vector, v.err = g.Questions.Question(ctx, tenant, text)
	}()
	return a
}

// wholeQuestion returns the question after its previous turns, one per line, as a vector cannot
// weight them.
func wholeQuestion(q *retrieval.Query) string {
	if len(q.Previous) == 0 {
		return q.Text
	}
	lines := make([]string, 0, len(q.Previous)+1)
	for _, turn := range slices.Backward(q.Previous) {
		lines = append(lines, turn.Text)
	}
	return strings.Join(append(lines, q.Text), "\n")
}

// 1/spared of the remaining time, but at least leastSpared, is not spent waiting for a vector: the
// steps after it take some milliseconds.
const (
	spared      = 10
	leastSpared = 10 * time.Millisecond
)

// await returns the vector of the question. It fails if the vector is not there shortly before the
// caller's deadline.
func (a *pendingVector) await(ctx context.Context) (*dense.Question, error) {
	var late <-chan time.Time
	if by, known := retrieval.AnswerBy(ctx); known {
		left := time.Until(by)
		timer := time.NewTimer(left - max(left/spared, leastSpared))
		defer timer.Stop()
		late = timer.C
	}
	var v askedVector
	select {
	case v = <-a.came:
		a.came <- v // for a second search
	case <-late:
		v.err = fmt.Errorf("the vector of the question is late: %w", context.DeadlineExceeded)
	case <-ctx.Done():
		v.err = ctx.Err()
	}
	if v.err != nil {
		return nil, v.err
	}
	return dense.NewQuestion(v.vector)
}

// hybrid returns the best k texts by words and vectors together. If the vector of the question is
// late or unavailable, or vectors are damaged, it returns those by words alone, and the stage.
func (e extent) hybrid(ctx context.Context, terms []bm25.Term, asked *pendingVector, k int, allowed []bm25.Bitmap) (found, retrieval.Stage, error) {
	words, err := e.best(ctx, terms, max(k, armDepth), allowed, nil)
	if err != nil {
		return found{}, "", err
	}
	hits, err := e.fused(ctx, words, asked, max(k, armDepth), allowed)
	if err != nil {
		if ctx.Err() != nil {
			return found{}, "", ctx.Err()
		}
		f := e.byWords(terms, words[:min(len(words), k)])
		f.why = retrieval.EmbedReasonOf(err)
		return f, retrieval.StageEmbed, nil
	}
	return e.admitted(terms, asked, words, hits, k), "", nil
}

// admitted returns the best k of fused hits, with the floor that tells which are answers. words are
// the hits by words.
func (e extent) admitted(terms []bm25.Term, asked *pendingVector, words []bm25.Hit, hits []fusedHit, k int) found {
	n := min(len(hits), k)
	if asked.weight == 1 {
		words = nil
	}
	f := found{hits: make([]bm25.Hit, n), arms: make([]hitScores, n)}
	f.floor = e.floor.admit(e, terms, words, hits, func(ref bm25.Ref) float64 { return e.trust(asked, ref) })
	for i := range f.hits {
		h := &hits[i]
		f.hits[i], f.arms[i] = bm25.Hit{Ref: h.Ref, Score: h.score}, hitScores{h.arm(), h.words, h.cosine, h.weight}
	}
	return f
}

// fused waits for the vector of the question and fuses the hits by vector with the hits by words.
// It reports damage.
func (e extent) fused(ctx context.Context, words []bm25.Hit, asked *pendingVector, k int, allowed []bm25.Bitmap) (hits []fusedHit, err error) {
	q, err := asked.await(ctx)
	if err != nil {
		return nil, err
	}
	err = e.content.Guard(func() error {
		x, texts := e.content.vectors, e.content.index.Len()
		if allowed != nil {
			texts = 0
			for i := range allowed {
				texts += allowed[i].Len()
			}
		}
		vectors, err := x.Search(ctx, q, k, wordsOf(allowed))
		if err != nil {
			return err
		}
		hits, err = merge(words, vectors, func(ref bm25.Ref) (float64, error) {
			if !x.Has(dense.Ref(ref)) {
				return 0, nil
			}
			return x.Cosine(q, dense.Ref(ref))
		})
		if err == nil {
			hits = e.fuse(asked, hits, vectors, texts)
		}
		return err
	})
	e.tellOfVectors(err)
	return hits, err
}

// fuse computes the fused scores of merged hits, and sorts them. texts is the number of texts that
// were searched.
func (e extent) fuse(asked *pendingVector, hits []fusedHit, vectors []dense.Hit, texts int) []fusedHit {
	for i := range hits {
		hits[i].weight = e.weight(asked, hits[i].Ref)
	}
	hits = slices.DeleteFunc(hits, func(h fusedHit) bool { return h.words == 0 && h.weight == 0 })
	if asked.fusion == retrieval.FusionRanks {
		fuseRanks(hits)
	} else {
		fuseScores(hits, vectors, texts)
	}
	return hits
}

// weight returns the weight of the cosine of a text: that of the policy, or as measured for its
// base.
func (e extent) weight(asked *pendingVector, ref bm25.Ref) float64 {
	if asked.weight > 0 {
		return asked.weight
	}
	if e.part != nil {
		return e.part.bases[ref.Segment].denseWeight()
	}
	weight, _ := e.of(ref).content.DenseWeight()
	return weight
}

// trust returns how far the cosine of a text can make it an answer, from 0 to 1. It is low if the
// model does not know the language of the base, or the policy gives cosines a low weight.
func (e extent) trust(asked *pendingVector, ref bm25.Ref) float64 {
	return min(1, e.weight(asked, ref)/retrieval.DefaultDenseWeight)
}

// byVectors returns the best k texts by vector alone; none, and the stage, if the question has no
// vector.
func (e extent) byVectors(ctx context.Context, asked *pendingVector, k int, allowed []bm25.Bitmap) (f found, _ retrieval.Stage, err error) {
	q, err := asked.await(ctx)
	if err != nil {
		return found{why: retrieval.EmbedReasonOf(err)}, retrieval.StageEmbed, ctx.Err()
	}
	err = e.content.Guard(func() error {
		hits, err := e.content.vectors.Search(ctx, q, k, wordsOf(allowed))
		for _, h := range hits {
			f.hits = append(f.hits, bm25.Hit{Ref: bm25.Ref(h.Ref), Score: max(0, h.Cosine)})
			f.arms = append(f.arms, hitScores{arm: retrieval.ArmVector, cosine: h.Cosine, weight: 1})
		}
		return err
	})
	e.tellOfVectors(err)
	return f, "", err
}

// wordsOf returns bitmaps as slices of machine words; nil for nil.
func wordsOf(allowed []bm25.Bitmap) [][]uint64 {
	if allowed == nil {
		return nil
	}
	words := make([][]uint64, len(allowed))
	for i := range allowed {
		words[i] = allowed[i]
	}
	return words
}

// tellOfVectors reports an error that indicates damaged vectors.
func (e extent) tellOfVectors(err error) {
	if damage := e.content.segments.Embeddings().Damage(err); damage != nil {
		e.content.tell(damage)
	}
}

// A floor tells an answer from noise, that is, from chunks that share a word or two with a
// question about something else. The least score of an answer to a question is
//
//	noise · scale · demand
//
// scale depends only on the question: its maximum score grows with the sum S of its terms' idf,
// and noise grows more slowly, as S^0.7. It also corrects for terms that texts repeat more or less
// often than others.
//
// demand depends on how much of the question the best hits contain: a text that shares a single
// word with it, or only conversational words, must score higher.
//
// noise depends on the base. It is measured with random questions, whose terms come from anywhere
// in the base and belong to no single text. In a base of few chunks they do belong together, so
// the measure is capped.
//
// The constants are those tried values that reject most questions about something else while
// losing no more than 3 % of the right answers in three collections (TestFloor of cmd/sidenote),
// and hardly any of the questions to bases of few chunks.
type floor struct {
	noise   float64
	cosines cosineFloor
}

const (
	floorExponent = 0.7
	// noiseQueries is how many random questions measure a base's noise.
	noiseQueries = 400
	noiseTerms   = 8 // about as many as a question has
	// noiseRank is the rank of the random questions' best scores that is taken as noise.
	noiseRank = noiseQueries * 81 / 100
	// noisePart is the factor applied to that score.
	noisePart = 0.95
	// longQuestion is how many terms of a question are measured: the rarest.
	longQuestion = 24
	// unknownFree is how many unknown words per known one do not raise the floor: they may be
	// names or synonyms, see unknownWeight.
	unknownFree = 1.0 / 3
	// mostUnknown is the factor of an unknown word in a question that has nothing else.
	mostUnknown = 2
	// smallTalk is the fraction of its weight with which a conversational word counts that no text
	// has: it indicates that the question is about nothing.
	smallTalk = 0.5
	// fewTexts is the number of texts below which idf cannot tell a rare term from a common one;
	// there the floor is lowered, so that a text with any term of the question passes.
	fewTexts = 8
	// enough is how many words of a question a hit should share, if the question has that many: a
	// single shared word is likely to be chance.
	enough = 1.5
	// witnesses is how many of the best hits are checked for an answer: the best may owe its score
	// to conversational words.
	witnesses = 3
	// leastShared keeps the demand finite if a hit shares almost nothing.
	leastShared = 0.05
	// rest is the fraction of the floor that the other hits need once the best hit is above it: if
	// one chunk answers, the next are likely to be about the same subject.
	rest = 0.7
	// farBelow is the fraction of the best score that the other hits need, so that one short right
	// text does not bring five others that share a word with it. Of the right documents among the
	// first six, it excludes one of 426 on Cranfield, one of 261 on SciFact and none of 380 on DRCD;
	// of all sources 1, 8 and 32 %.
	farBelow = 0.4
)

// calibrate measures the noise of x.
func calibrate(ctx context.Context, x *bm25.Index) (floor, error) {
	c, err := calibrateSince(ctx, x, nil, nil)
	if err != nil {
		return floor{}, err
	}
	return c.floor, nil
}

// floorOf returns the floor of a base of n texts, given the scores of random questions.
func floorOf(noise []float64, n int) floor {
	return floor{noise: cappedNoise(measuredNoise(noise), n)}
}

// measuredNoise returns the noise that the scores of random questions show, 0 for none.
func measuredNoise(noise []float64) float64 {
	if len(noise) == 0 {
		return 0
	}
	slices.Sort(noise)
	return noisePart * noise[len(noise)*noiseRank/noiseQueries]
}

// cappedNoise returns the noise of a base of n texts. Up to some thousand texts the cap decides; it
// was fitted to bases of 14 to 120 chunks of manuals.
func cappedNoise(measured float64, n int) float64 {
	texts := float64(n)
	return min(measured, 0.34*math.Pow(texts, 0.2)*min(1, texts/fewTexts))
}

// of returns the least score of an answer to the question, on the scale of the extent's scores. If
// none of the best hits is an answer, it is above all of them.
func (f floor) of(e extent, terms []bm25.Term, hits []bm25.Hit) float64 {
	var few [fewTerms]measuredTerm
	q := measure(e.content.index, terms, few[:0])
	if len(hits) == 0 {
		return f.noise * q.scale()
	}
	above := 0.0
	for i, h := range hits[:min(len(hits), witnesses)] {
		own := f.least(e, &q, h.Ref)
		if h.Score >= own {
			return own * rest
		}
		if i == 0 {
			above = own
		}
	}
	return above
}

// least returns the least score with which a text answers a question.
func (f floor) least(e extent, q *measured, text bm25.Ref) float64 {
	q.within(e, e.base(text))
	return f.noise * q.scale() * q.demand(e.content.index, text)
}

// A measured is a question prepared for the floor: its distinct terms, sorted by text, with their
// weights in an index.
type measured struct {
	terms  []measuredTerm
	needed float64 // sum of topics that an answer must contain, see weigh
	base   int     // the number of the base that it is measured for, plus 1; 0 before within
}

type measuredTerm struct {
	text   string
	of     string // the word that it is an alternative for, or ""
	kind   bm25.Kind
	others []string   // the word's other alternatives
	parts  [][]string // what texts have for the parts of the word
	weight float64    // sum over its occurrences
	idf    float64
	counts float64 // its factor in scores, apart from weight
	topic  float64 // its share of the question's topic, see weigh
	known  bool    // whether any text contains it; after within, of the base
	whole  bool    // an identifier
	across bool    // a pair of characters of two words, see markAcross

	topicality     float64 // see analysis.Topicality
	conversational bool
	elsewhere      bool // only texts of other bases contain it
}

// measure returns the measured question. It uses room if that is large enough.
func measure(x *bm25.Index, terms []bm25.Term, room []measuredTerm) measured {
	if !slices.IsSortedFunc(terms, bm25.ByText) {
		terms = slices.Clone(terms)
		slices.SortStableFunc(terms, bm25.ByText)
	}
	q, alternatives := measured{terms: room[:0]}, false
	for _, t := range terms {
		if t.Of != "" {
			alternatives = true
		} else if n := len(q.terms); n > 0 && q.terms[n-1].text == t.Text {
			q.terms[n-1].weight += t.Weight
		} else {
			q.add(t, x.Meaning(t.Text))
		}
	}
	if alternatives {
		q.addAlternatives(x, terms)
	}
	q.markAcross()
	return q
}

func (q *measured) add(t bm25.Term, means bm25.Meaning) {
	m := measuredTerm{
		text: t.Text, of: t.Of, kind: t.Kind, weight: t.Weight, whole: t.Whole != "" && t.Whole == t.Text,
		idf: means.IDF, counts: means.Weight, known: means.Known,
	}
	m.topicality, m.conversational = analysis.Topicality(t.Text)
	q.terms = append(q.terms, m)
}

// addAlternatives adds the alternatives for whole words, then those for parts.
func (q *measured) addAlternatives(x *bm25.Index, terms []bm25.Term) {
	for _, t := range terms {
		if means := x.Meaning(t.Text); t.Of != "" && t.Part == 0 && !q.either(t, means) {
			q.add(t, means)
		}
	}
	for _, t := range terms {
		if means := x.Meaning(t.Text); t.Of != "" && t.Part > 0 && !q.part(t, means) {
			q.add(t, means)
			m := &q.terms[len(q.terms)-1]
			m.text = ""
			q.part(t, means)
		}
	}
}

// markAcross marks the pairs of characters that are likely to be the end of one word and the start
// of the next: texts have the pairs that begin and end there more often. They say nothing about
// the topic, as the words are counted by the other pairs.
func (q *measured) markAcross() {
	var starts, ends map[rune]float64 // the least idf of known pairs that start or end with a character
	for i := range q.terms {
		t := &q.terms[i]
		first, second, ok := analysis.Pair(t.text)
		if !ok || !t.known {
			continue
		}
		if starts == nil {
			starts, ends = map[rune]float64{}, map[rune]float64{}
		}
		keepLeast(starts, first, t.idf)
		keepLeast(ends, second, t.idf)
	}
	if starts == nil {
		return
	}
	for i := range q.terms {
		t := &q.terms[i]
		if first, second, ok := analysis.Pair(t.text); ok {
			before, had := ends[first]
			after, has := starts[second]
			t.across = had && has && max(before, after) < t.idf
		}
	}
}

func keepLeast(m map[rune]float64, at rune, v float64) {
	if least, ok := m[at]; !ok || v < least {
		m[at] = v
	}
}

// of returns the term that stands for the word of an alternative, nil if there is none.
func (q *measured) of(t bm25.Term) *measuredTerm {
	for i := range q.terms {
		if m := &q.terms[i]; m.of == t.Of || m.of == "" && m.text == t.Of {
			return m
		}
	}
	return nil
}

// either adds an alternative to the term that stands for its word, if there is one.
func (q *measured) either(t bm25.Term, means bm25.Meaning) bool {
	m := q.of(t)
	if m == nil {
		return false
	}
	m.others = append(m.others, t.Text)
	m.means(t, means)
	return true
}

// part adds an alternative for a part to the term that stands for its word, if there is one.
func (q *measured) part(t bm25.Term, means bm25.Meaning) bool {
	m := q.of(t)
	if m == nil {
		return false
	}
	for len(m.parts) < t.Part {
		m.parts = append(m.parts, nil)
	}
	m.parts[t.Part-1] = append(m.parts[t.Part-1], t.Text)
	if m.text == "" || !m.known {
		m.means(t, means)
	}
	return true
}

// share returns the weight of the word that the term stands for.
func (t *measuredTerm) share() float64 {
	switch t.kind {
	case bm25.Correction:
		return t.weight / correctedWeight
	case bm25.Compound:
		return t.weight / compoundWeight
	case bm25.Synonym:
		return t.weight / synonymWeight
	}
	return t.weight
}

// means adds what an alternative means, which does not raise the floor.
func (t *measuredTerm) means(alternative bm25.Term, m bm25.Meaning) {
	if !m.Known {
		return
	}
	if !t.known && t.of == "" {
		t.weight, t.kind = alternative.Weight, alternative.Kind
	}
	t.idf, t.counts, t.known = min(t.idf, m.IDF), min(t.counts, m.Weight), true
}

// stands reports whether the measured term stands for a term.
func (t *measuredTerm) stands(other *bm25.Term) bool {
	if other.Of == "" {
		return t.of == "" && t.text == other.Text
	}
	return other.Of == t.of || t.of == "" && other.Of == t.text
}

// in returns how much of the term a text has: 1 for the word or another alternative, less for its
// parts.
func (t *measuredTerm) in(x *bm25.Index, text bm25.Ref) float64 {
	if !t.known {
		return 0
	}
	has := func(term string) bool { return x.Has(text, term) }
	if t.text != "" && has(t.text) || slices.ContainsFunc(t.others, has) {
		return 1
	}
	parts := 0
	for _, alternatives := range t.parts {
		if slices.ContainsFunc(alternatives, has) {
			parts++
		}
	}
	return float64(parts) / float64(max(1, len(t.parts)))
}

// any reports whether f is true for a term that it stands for.
func (t *measuredTerm) any(f func(term string) bool) bool {
	if t.text != "" && f(t.text) || slices.ContainsFunc(t.others, f) {
		return true
	}
	return slices.ContainsFunc(t.parts, func(part []string) bool { return slices.ContainsFunc(part, f) })
}

// within measures the question for texts of one base: what only others know says nothing about
// them.
func (q *measured) within(e extent, base int) {
	if q.base == base+1 {
		return
	}
	q.base = base + 1
	for i := range q.terms {
		if t := &q.terms[i]; e.several() {
			was := t.known || t.elsewhere
			t.known = t.any(func(term string) bool { return e.knows(base, term) })
			t.elsewhere = was && !t.known
		}
	}
	q.weigh()
}

// knows reports whether a text of a base has a term.
func (e extent) knows(base int, term string) bool {
	return e.content.index.ContainsIn(term, func(segment int) bool { return e.base(bm25.Ref{Segment: segment}) == base })
}

// unknownWeight returns the fraction of its weight with which a word counts that no text has. Such
// words must not raise the floor of a question that texts can answer. But if most words are
// unknown, it is likely about something else.
func (q measured) unknownWeight() float64 {
	known, unknown := 0.0, 0.0
	for i := range q.terms {
		t := &q.terms[i]
		switch topic := t.topicality * min(1, t.share()); {
		case t.whole && t.known:
			return 0 // an identifier alone says what the question is about
		case t.conversational, t.across:
		case t.known:
			known += topic
		default:
			unknown += topic
		}
	}
	if unknown == 0 {
		return 0
	}
	excess := max(0, 1-unknownFree*known/unknown)
	return mostUnknown * excess * excess
}

// scale returns the unit for the scores of a question. For long pasted texts only the rarest terms
// count, because no chunk could answer all of it.
func (q measured) scale() float64 {
	type part struct{ idf, counts float64 }
	var few [fewTerms]part
	parts := few[:0]
	unknown := q.unknownWeight()
	for i := range q.terms {
		t := &q.terms[i]
		w := t.weight
		switch {
		case t.across:
			continue
		case t.known:
		case t.conversational:
			w *= smallTalk
		case t.elsewhere:
			w *= min(1, unknown)
		default:
			w *= unknown
		}
		parts = append(parts, part{w * t.idf, w * t.counts})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.idf, b.idf), cmp.Compare(a.counts, b.counts)) })
	var sum part
	for _, p := range parts[max(0, len(parts)-longQuestion):] {
		sum.idf, sum.counts = sum.idf+p.idf, sum.counts+p.counts
	}
	if sum.idf == 0 {
		return 0
	}
	return math.Pow(sum.idf, floorExponent) * sum.counts / sum.idf
}

// weigh computes how much each term says about the topic of the question (analysis.Topicality),
// and how much of the total an answer must contain: enough, or everything that a shorter question
// has besides conversational words. Terms of lower weight, from earlier turns, are not required
// unless the question has none of its own. A year says nothing beside other words: it is when, not
// what.
func (q *measured) weigh() {
	topical := slices.ContainsFunc(q.terms, func(t measuredTerm) bool { return !t.conversational && !t.across && !isYear(t.text) })
	own, all := 0.0, 0.0
	answerable, joined := 0.0, 0.0 // what some text contains: of the question itself, and of earlier turns
	for i := range q.terms {
		t := &q.terms[i]
		topic := t.topicality * min(1, t.share())
		if t.kind == bm25.Correction {
			topic = t.topicality * min(1, t.weight) * correctedTopic
		}
		if t.whole && t.known {
			topic = enough // an identifier alone says what the question is about
		}
		if t.across || topical && !t.whole && isYear(t.text) {
			topic = 0
		}
		t.topic = topic
		if !t.conversational {
			all += topic
			switch {
			case t.share() >= 1:
				own += topic
				if t.known {
					answerable += topic
				}
			case t.known:
				joined += topic
			}
		}
	}
	if answerable == 0 && joined > 0 { // "and for adopted children?", which no text mentions
		own = joined
	}
	q.needed = min(cmp.Or(own, all, enough), enough)
}

// isYear reports whether a term is a number from 1900 to 2099.
func isYear(term string) bool {
	return len(term) == len("2026") && (strings.HasPrefix(term, "19") || strings.HasPrefix(term, "20")) && strings.Trim(term[2:], "0123456789") == ""
}

// demand returns the factor by which a text must exceed the noise: 2 if it contains half of what
// is needed.
func (q measured) demand(x *bm25.Index, text bm25.Ref) float64 {
	shared := leastShared
	for i := range q.terms {
		t := &q.terms[i]
		shared += t.topic * t.in(x, text)
	}
	return max(1, q.needed/shared)
}

// A fusedHit is a text that was found by words, by vector or by both.
type fusedHit struct {
	bm25.Ref
	score  float64 // fused
	words  float64 // BM25 score; 0 if it was not found by words
	cosine float64 // 0 if it has no vector
	weight float64 // of the cosine
	rank   int     // rank by vector, from 1; 0 if it was not found by vector

	byWords, byCosine float64 // the parts of score
}

// arm returns the arm that contributes most to the score.
func (h *fusedHit) arm() retrieval.Arm {
	if h.byCosine > h.byWords {
		return retrieval.ArmVector
	}
	return retrieval.ArmWords
}

const (
	// armDepth is how many candidates of each arm the score distributions are computed from, and
	// the least number that are fused.
	armDepth = 100
	// fusedUnit is the unit that fused scores are rounded to, so that they take less space in
	// caches.
	fusedUnit = 1.0 / (1 << 20)
)

// merge combines the hits by words and by vector into one list: first those by words, in their
// order. cosine returns the cosine of a text, 0 if it has no vector.
func merge(words []bm25.Hit, vectors []dense.Hit, cosine func(bm25.Ref) (float64, error)) ([]fusedHit, error) {
	at := make(map[bm25.Ref]int, len(words)+len(vectors))
	hits := make([]fusedHit, 0, len(words)+len(vectors))
	for _, h := range words {
		at[h.Ref] = len(hits)
		hits = append(hits, fusedHit{Ref: h.Ref, words: h.Score})
	}
	for i, h := range vectors {
		n, both := at[bm25.Ref(h.Ref)]
		if !both {
			n = len(hits)
			hits = append(hits, fusedHit{Ref: bm25.Ref(h.Ref)})
		}
		hits[n].cosine, hits[n].rank = h.Cosine, i+1
	}
	for i := range hits {
		if h := &hits[i]; h.cosine == 0 {
			var err error
			if h.cosine, err = cosine(h.Ref); err != nil {
				return nil, err
			}
		}
	}
	return hits, nil
}

// fuseScores computes fused scores of merged hits from normalized scores and cosines, and sorts
// the hits. texts is the number of texts that were searched.
func fuseScores(hits []fusedHit, vectors []dense.Hit, texts int) {
	scores, cosines := make([]float64, 0, armDepth), make([]float64, 0, armDepth)
	for i := range hits[:min(len(hits), armDepth)] {
		if hits[i].words > 0 {
			scores = append(scores, hits[i].words)
		}
	}
	for len(scores) < min(armDepth, texts) { // no other text contains a word of the question
		scores = append(scores, 0)
	}
	for _, h := range vectors[:min(len(vectors), armDepth)] {
		cosines = append(cosines, h.Cosine)
	}
	w, v := retrieval.DistributionOf(scores), retrieval.DistributionOf(cosines)
	for i := range hits {
		h := &hits[i]
		if h.words > 0 {
			h.byWords = (1 - h.weight) * w.Scale(h.words)
		}
		if h.cosine != 0 {
			h.byCosine = h.weight * v.Scale(h.cosine)
		}
	}
	sortFused(hits)
}

// fuseRanks computes fused scores of merged hits from their ranks, and sorts the hits.
func fuseRanks(hits []fusedHit) {
	for i := range hits {
		h := &hits[i]
		if h.words > 0 {
			h.byWords = (1 - h.weight) * retrieval.ReciprocalRank(i+1)
		}
		if h.rank > 0 {
			h.byCosine = h.weight * retrieval.ReciprocalRank(h.rank)
		}
	}
	sortFused(hits)
}

// sortFused adds the two parts of the scores and sorts hits, best first.
func sortFused(hits []fusedHit) {
	for i := range hits {
		h := &hits[i]
		h.score = math.Round(max(0, h.byWords+h.byCosine)/fusedUnit) * fusedUnit
	}
	slices.SortFunc(hits, func(a, b fusedHit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.words, a.words), cmp.Compare(b.cosine, a.cosine),
			cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Text, b.Text))
	})
}

// QuestionVector returns the vector of a question with its previous turns.
func QuestionVector(ctx context.Context, from Questions, q *retrieval.Query) ([]float32, error) {
	type answer struct {
		vector []float32
		err    error
	}
	came := make(chan answer, 1) // buffered: nobody may wait for a late vector
	tenant, text := q.Tenant, wholeQuestion(q)
	go func() {
		var a answer
		defer func() {
			if value := recover(); value != nil {
				a.err = fmt.Errorf("panic: %v", value)
			}
			came <- a
		}()
		a.vector, a.err = from.Question(ctx, tenant, text)
	}()
	select {
	case a := <-came:
		return a.vector, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the vector of the question is late: %w", ctx.Err())
	}
}
