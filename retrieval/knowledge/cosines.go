package knowledge

import (
	"cmp"
	"context"
	"math"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A cosineFloor tells an answer from noise by the cosine of question and passage. Which cosine is
// high differs from model to model, so it is measured for each base: between the cosines of
// messages about nothing in particular (Probes) and those of the most similar passages in
// different documents.
//
// With MiniLM this gives cosines of .41 and .40 on two English collections; with
// multilingual-e5-small, .85 on one of them.
type cosineFloor struct {
	noise  float64
	answer float64 // least cosine of an answer; 0 if nothing was measured
}

const (
	// answerShare is where an answer begins, between noise (0) and similar passages (1).
	answerShare = 0.42
	// leastCalibrated is the fewest texts with vectors from which cosines are measured. In a smaller
	// base the most similar passages of different documents are hardly similar, so that anything
	// would seem to be an answer; there words alone decide what is one.
	leastCalibrated = 100
	// leastSpread is the least difference of the two measured cosines. With less, they do not tell
	// an answer from noise.
	leastSpread = 0.04
	// sampled is how many passages are compared with their neighbours; neighbours is how many of
	// these are searched for one in another document.
	sampled    = 48
	neighbours = 16

	// admits is the strength of a cosine from which a hit is an answer, whatever its words. With
	// MiniLM, of 268 messages about nothing one reaches it on SciFact and none on Cranfield; of the
	// right documents that words miss, 95 and 90 % do.
	admits = 1.15
	// admitsWithWords is admits for a hit that has withWords of the score that words need.
	admitsWithWords = 0.9
	withWords       = 0.5
	// restCosine is the fraction of the best strength that the cosines of other hits need.
	restCosine = 0.5
	// both is the least sum of the strengths of words and cosine of other hits.
	both = 1.2
)

// Probes returns messages that no document answers, to be embedded as questions. Their cosines are
// noise.
func Probes() []string {
	return []string{
		"hello there", "thanks, that helped a lot", "tell me a joke", "how are you today?", "what is your name?",
		"please repeat that", "can you help me with something?", "ok, got it", "what's the weather like tomorrow?",
		"write a short poem about my cat", "who won the game last night?", "I am bored", "summarize what you said above",
		"Guten Morgen, wie geht es dir?", "Danke, das war alles", "Merci beaucoup, bonne journée !", "Raconte-moi une histoire",
		"¿Qué tal estás hoy?", "Cuéntame un chiste", "你好，谢谢你的帮助", "今天天气怎么样？",
	}
}

// strength returns how strongly a cosine indicates an answer: 0 for noise, 1 for the least answer.
func (f cosineFloor) strength(cosine float64) float64 {
	if f.answer == 0 {
		return 0
	}
	return max(0, (cosine-f.noise)/(f.answer-f.noise))
}

// measureCosines measures the cosine floor. It depends only on the texts and vectors, not on how
// they are divided into segments.
func (e extent) measureCosines(ctx context.Context, probes [][]float32) (f cosineFloor, err error) {
	var noise, near []float64
	if e.content.segments.Embeddings().Len() < leastCalibrated {
		return f, nil
	}
	for _, p := range probes {
		q, err := dense.NewQuestion(p)
		if err != nil {
			return f, err
		}
		hits, err := e.content.vectors.Search(ctx, q, 1, nil)
		if err != nil {
			return f, err
		}
		for _, h := range hits {
			noise = append(noise, h.Cosine)
		}
	}
	for _, ref := range e.content.segments.Embeddings().Sample(sampled) {
		cosine, ok, err := e.nearest(ctx, ref)
		if err != nil {
			return f, err
		}
		if ok {
			near = append(near, cosine)
		}
	}
	return cosinesOf(noise, near), nil
}

// cosinesOf returns the floor for the cosines of probes and of similar passages; zero if they do not
// differ enough.
func cosinesOf(noise, near []float64) (f cosineFloor) {
	if len(noise) == 0 || len(near) == 0 {
		return f
	}
	low, high := median(noise), median(near)
	if high-low < leastSpread {
		return f
	}
	return cosineFloor{noise: low, answer: low + answerShare*(high-low)}
}

// nearest returns the cosine of the most similar text in another document.
func (e extent) nearest(ctx context.Context, ref bm25.Ref) (cosine float64, found bool, err error) {
	q, err := e.content.vectors.Vector(dense.Ref(ref))
	if err != nil {
		return 0, false, err
	}
	hits, err := e.content.vectors.Search(ctx, q, neighbours, nil)
	own := e.content.segments.Span(ref)
	for _, h := range hits {
		if e.content.segments.Span(bm25.Ref(h.Ref)) != own {
			return h.Cosine, true, nil
		}
	}
	return 0, false, err
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// admit decides which fused hits, best first, are answers to the question, and returns the floor of
// their scores. Two things make a hit an answer: its words, as in a search by words alone, and a
// cosine that is high in its base. Neither is a veto on the other. words are the hits by words, best
// first; nil if they do not count. trust says how far the cosines of a base count, from 0 to 1.
//
// The scores of hits that are answers are raised to the floor, those of others put below it, and
// the hits sorted again.
func (f floor) admit(e extent, terms []bm25.Term, words []bm25.Hit, hits []fusedHit, trust func(bm25.Ref) float64) float64 {
	if len(hits) == 0 {
		return 0
	}
	byWords := math.Inf(1)
	if len(words) > 0 {
		byWords = max(f.of(e, terms, words), e.least(words[0].Score))
	}
	// strengths are 1 for the least answer; first those of words alone.
	strengths, best, bestCosine := make([]float64, len(hits)), 0.0, 0.0
	for i, h := range hits {
		if byWords > 0 {
			strengths[i] = h.words / byWords
		}
		best = max(best, strengths[i])
		bestCosine = max(bestCosine, f.meaning(h, strengths[i], trust(h.Ref)))
	}
	best = max(best, bestCosine)
	if best < 1 {
		return max(hits[0].score, fusedUnit) / max(best, leastShared)
	}
	for i, h := range hits { // the others may be weaker
		cosine := f.meaning(h, strengths[i], trust(h.Ref)) / max(rest, restCosine*bestCosine)
		strengths[i] = max(strengths[i], cosine, (strengths[i]+cosine)/both)
	}
	most := hits[0].score
	floor := math.Ceil(most*fusedRest/min(best, mostStrength)/fusedUnit) * fusedUnit
	for i := range hits {
		if h := &hits[i]; strengths[i] >= 1 {
			h.score = max(h.score, floor)
		} else {
			h.score = math.Floor(floor*belowFloor*h.score/most/fusedUnit) * fusedUnit
		}
	}
	slices.SortStableFunc(hits, func(a, b fusedHit) int { return cmp.Compare(b.score, a.score) })
	return floor
}

// meaning returns how strongly the cosine of a hit indicates an answer: 1 for the least that is one.
// words is the strength of its words.
func (f floor) meaning(h fusedHit, words, trust float64) float64 {
	least := admits
	if words >= withWords {
		least = admitsWithWords
	}
	return trust * f.cosines.strength(h.cosine) / least
}

const (
	// fusedRest is the fraction of the best score that is the floor if the best is just an answer.
	// The fraction falls as the best hit gets stronger, up to mostStrength.
	fusedRest    = 0.3
	mostStrength = 2
	// belowFloor is the fraction of the floor that the best hit has that is no answer.
	belowFloor = 0.99
)
