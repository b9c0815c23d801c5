package knowledge

import (
	"cmp"
	"context"
	"math"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// ArmDepth is how many candidates of each arm Rank needs, if there are as many.
const ArmDepth = armDepth

// A RemoteBase is what Rank knows of a base in an engine elsewhere.
type RemoteBase struct {
	ID       string
	Measures Measures
}

// Measures are measured once for each content of a base, see Measure.
type Measures struct {
	Noise        float64 `json:"noise"` // of random questions; 0 if unknown
	CosineNoise  float64 `json:"cosine_noise"`
	CosineAnswer float64 `json:"cosine_answer"` // 0 if unknown
	Weight       float64 `json:"weight"`        // of cosines
	Weighed      bool    `json:"weighed"`       // whether Weight was measured
}

func (b *RemoteBase) denseWeight() float64 {
	if !b.Measures.Weighed {
		return retrieval.DefaultDenseWeight
	}
	return b.Measures.Weight
}

// A Corpus is what Rank knows of all bases that were searched together.
type Corpus struct {
	bm25.Corpus
	Terms []bm25.CorpusTerm // those of the question, sorted by text; In is by base
	Bases []RemoteBase
}

// A Candidate is a chunk that an engine elsewhere found.
type Candidate struct {
	Base     int // index into Corpus.Bases
	Doc      string
	Ordinal  int
	Chunks   int    // number of chunks of its document
	Lengths  uint64 // number of terms of its document
	Length   int    // number of terms
	Freqs    []int  // of Corpus.Terms
	Cosine   float64
	ByVector int // rank among the candidates by vector, from 1; 0: not found by vector
}

// A Ranked is a candidate that Rank returns.
type Ranked struct {
	Candidate int // index into the candidates
	Score     float64
	Arm       retrieval.Arm
	ByArm     retrieval.ArmScores
}

// A Ranking is the result of Rank, best first.
type Ranking struct {
	Hits  []Ranked
	Floor float64 // as in retrieval.Result
	Least float64 // likewise
}

// Rank ranks candidates from an engine elsewhere as a Group ranks its own texts: with the same
// scores by words, fusion and floor. If the candidates include the best of all texts by words and by
// vector, ArmDepth each, only two things differ: the score of a document as a whole counts the
// terms of the chunks that are candidates, and versions of a document that are no candidates are
// unknown.
//
// terms are those of Terms. byVector says that the engine searched by vector, too.
func Rank(ctx context.Context, q *retrieval.Query, terms []bm25.Term, c *Corpus, candidates []Candidate, byVector bool) (Ranking, error) {
	e, terms, asked := partOf(q, terms, c, candidates)
	f, err := e.rank(ctx, q, terms, asked, byVector)
	if err != nil {
		return Ranking{}, err
	}
	r := Ranking{Floor: f.floor, Hits: make([]Ranked, len(f.hits))}
	for i, h := range f.hits {
		r.Hits[i] = Ranked{Candidate: e.part.order[h.Segment][h.Text], Score: h.Score}
		if f.arms != nil {
			by := &f.arms[i]
			r.Hits[i].Arm, r.Hits[i].ByArm = by.arm, retrieval.ArmScores{Words: float32(by.words), Vector: float32(by.cosine)}
		}
	}
	if f.arms == nil && len(r.Hits) > 0 {
		r.Least = e.least(r.Hits[0].Score)
	}
	return r, nil
}

// ExplainRank explains the result of Rank.
func ExplainRank(ctx context.Context, q *retrieval.Query, terms []bm25.Term, c *Corpus, candidates []Candidate, byVector bool) (told retrieval.Explained, err error) {
	e, terms, asked := partOf(q, terms, c, candidates)
	f, err := e.rank(ctx, q, terms, asked, byVector)
	if err != nil {
		return told, err
	}
	return told, e.explainFound(ctx, terms, &f, nil, &told)
}

// A part is the candidates of some bases, each base a segment.
type part struct {
	bases      []RemoteBase
	candidates []Candidate
	order      [][]int       // by segment and text: index into candidates
	spans      [][]bm25.Span // likewise
	vectors    []dense.Hit   // candidates by vector, best first
}

func (p *part) candidate(ref bm25.Ref) *Candidate {
	return &p.candidates[p.order[ref.Segment][ref.Text]]
}

// partOf returns the extent of candidates, the terms as they are searched there, and the weights of
// the vector.
func partOf(q *retrieval.Query, terms []bm25.Term, c *Corpus, candidates []Candidate) (extent, []bm25.Term, *pendingVector) {
	p := &part{bases: c.Bases, candidates: candidates, order: make([][]int, len(c.Bases)), spans: make([][]bm25.Span, len(c.Bases))}
	for i := range candidates {
		p.order[candidates[i].Base] = append(p.order[candidates[i].Base], i)
	}
	texts := make([][]bm25.PartText, len(c.Bases))
	for base, order := range p.order {
		slices.SortFunc(order, func(i, j int) int {
			a, b := &candidates[i], &candidates[j]
			return cmp.Or(cmp.Compare(a.Doc, b.Doc), cmp.Compare(a.Ordinal, b.Ordinal))
		})
		for text, i := range order {
			own := &candidates[i]
			texts[base] = append(texts[base], bm25.PartText{Length: own.Length, Freqs: own.Freqs})
			if own.ByVector > 0 {
				p.vectors = append(p.vectors, dense.Hit{Ref: dense.Ref{Segment: base, Text: text}, Cosine: own.Cosine})
			}
		}
		p.spans[base] = spansOf(base, order, candidates)
	}
	slices.SortFunc(p.vectors, func(a, b dense.Hit) int {
		return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(a.Ref.Segment, b.Ref.Segment), cmp.Compare(a.Ref.Text, b.Ref.Text))
	})
	content := &Content{index: bm25.NewPart(c.Corpus, c.Terms, texts), filters: newFilterCache()}
	e := extent{content: content, part: p, floor: floorOfBases(c)}
	terms = content.index.WeighIdentifiers(settled(terms, content.index), nil)
	return e, terms, &pendingVector{weight: q.Settings.DenseWeight, fusion: q.Settings.Fusion}
}

// spansOf returns the spans of the documents of candidates in their order, by text.
func spansOf(base int, order []int, candidates []Candidate) []bm25.Span {
	spans := make([]bm25.Span, len(order))
	for first := 0; first < len(order); {
		own, end := &candidates[order[first]], first+1
		for end < len(order) && candidates[order[end]].Doc == own.Doc {
			end++
		}
		span := bm25.Span{Segment: base, First: first, End: end, Texts: max(own.Chunks, end-first), Lengths: own.Lengths}
		for ; first < end; first++ {
			spans[first] = span
		}
	}
	return spans
}

// floorOfBases returns the floor of bases together: the noise of the noisiest, and the cosines of
// the first that has vectors.
func floorOfBases(c *Corpus) (f floor) {
	measured := 0.0
	for i := range c.Bases {
		m := &c.Bases[i].Measures
		measured = max(measured, m.Noise)
		if f.cosines.answer == 0 {
			f.cosines = cosineFloor{noise: m.CosineNoise, answer: m.CosineAnswer}
		}
	}
	if measured == 0 {
		measured = math.Inf(1) // not measured yet
	}
	f.noise = cappedNoise(measured, c.Texts)
	return f
}

// settled returns terms without the corrections of words that some text has, and without words that
// no text has, but an alternative.
func settled(terms []bm25.Term, x *bm25.Index) []bm25.Term {
	if !slices.ContainsFunc(terms, func(t bm25.Term) bool { return t.Of != "" }) {
		return terms
	}
	return slices.DeleteFunc(slices.Clone(terms), func(t bm25.Term) bool {
		if t.Kind == bm25.Correction {
			return x.Meaning(t.Of).Known
		}
		return t.Of == "" && !x.Meaning(t.Text).Known &&
			slices.ContainsFunc(terms, func(other bm25.Term) bool { return other.Of == t.Text && other.Kind != bm25.Synonym })
	})
}

// Found returns terms without the alternatives of words that no candidate has, and with a word itself
// if no alternative of it is left. With a filter, others are of documents that do not pass it, and
// must not be told. Synonyms are not of documents.
func Found(terms []bm25.Term, has func(text string) bool) []bm25.Term {
	hidden := func(t bm25.Term) bool {
		return t.Of != "" && t.Text != t.Of && t.Kind != bm25.Synonym && !has(t.Text)
	}
	left := slices.DeleteFunc(slices.Clone(terms), hidden)
	for _, t := range terms {
		if !hidden(t) || slices.ContainsFunc(left, func(other bm25.Term) bool { return other.Text == t.Of || other.Of == t.Of }) {
			continue
		}
		word := bm25.Term{Text: t.Of, Weight: t.Weight, Word: t.Word}
		if t.Kind == bm25.Correction {
			word.Weight /= correctedWeight
		}
		left = append(left, word)
	}
	slices.SortStableFunc(left, bm25.ByText)
	return left
}

// rank searches the candidates.
func (e extent) rank(ctx context.Context, q *retrieval.Query, terms []bm25.Term, asked *pendingVector, byVector bool) (found, error) {
	k := q.Settings.NumCandidates
	if !byVector {
		hits, err := e.best(ctx, terms, k, nil, nil)
		if err != nil {
			return found{}, err
		}
		return e.byWords(terms, hits), nil
	}
	words, err := e.best(ctx, terms, max(k, armDepth), nil, nil)
	if err != nil {
		return found{}, err
	}
	hits, err := merge(words, e.part.vectors, func(ref bm25.Ref) (float64, error) { return e.part.candidate(ref).Cosine, nil })
	if err != nil {
		return found{}, err
	}
	hits = e.fuse(asked, hits, e.part.vectors, e.searched(q))
	return e.admitted(terms, asked, words, hits, k), nil
}

// searched returns the number of texts that the engine searched, as far as it matters: all, or those
// that pass the filter.
func (e extent) searched(q *retrieval.Query) int {
	if q.Filter != nil && len(e.part.vectors) < armDepth {
		return len(e.part.candidates)
	}
	return e.content.index.Len()
}

// A Vocabulary is the most frequent terms of bases in an engine elsewhere. It finds what a
// misspelled word may stand for, and the compounds of a word, without asking the engine.
type Vocabulary struct {
	whole  bool // has all terms
	extent extent
}

// NewVocabulary returns a Vocabulary. terms must be distinct and sorted by text; whole says that the
// bases have no others.
func NewVocabulary(of bm25.Corpus, terms []bm25.CorpusTerm, whole bool) *Vocabulary {
	return &Vocabulary{whole, extent{content: &Content{index: bm25.NewVocabulary(of, terms), filters: newFilterCache()}}}
}

// Terms returns the terms to search for, sorted by text: those of the question, of its previous
// turns and their synonyms, and the alternatives of words. A nil Vocabulary knows no alternatives.
func (v *Vocabulary) Terms(ctx context.Context, q *retrieval.Query, analysed *analysis.Recent) ([]bm25.Term, error) {
	terms := termsOf(q, analysed, nil)
	if v == nil || len(terms) == 0 {
		return terms, nil
	}
	found, err := v.extent.alternatives(ctx, terms, nil)
	if err != nil || v.whole {
		return found, err
	}
	// A word that is missing here may be rare: the engine knows.
	for _, t := range terms {
		if t.Of == "" && !slices.ContainsFunc(found, func(other bm25.Term) bool { return other.Of == "" && other.Text == t.Text }) {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, bm25.ByText)
	return found, nil
}
