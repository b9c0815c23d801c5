package knowledge

import (
	"context"
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
// multilingual-e5-small, .85 on one of them. There, none of 137 messages in six languages gets a
// source, nor do more than 5 % of the questions of another collection; 2.4 % and 0.5 % of the
// questions lose a right source.
type cosineFloor struct {
	noise  float64
	answer float64 // least cosine of an answer; 0 if nothing was measured
}

const (
	// answerShare is where an answer begins, between noise (0) and similar passages (1).
	answerShare = 0.42
	// withWords is the least strength of a cosine for a chunk whose words pass.
	withWords = 0.75
	// wordsAlone is the factor by which a BM25 score must exceed its floor to be an answer
	// whatever the cosine: models know little of names, error codes and the like. With MiniLM it
	// gives a source back to one in 250 questions of SciFact, and to no message about nothing.
	wordsAlone = 2
	// sampled is how many passages are compared with their neighbours; neighbours is how many of
	// these are searched for one in another document.
	sampled    = 48
	neighbours = 16
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
	if len(noise) == 0 || len(near) == 0 {
		return f, nil
	}
	low, high := median(noise), median(near)
	if high <= low {
		return f, nil
	}
	return cosineFloor{noise: low, answer: low + answerShare*(high-low)}, nil
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

// strengths returns how strongly each hit is an answer: 1 is the least that is one. trust is
// extent.trust; the less the cosines are trusted, the more words decide.
func (f floor) strengths(e extent, terms []bm25.Term, hits []fusedHit, trust func(bm25.Ref) float64) []float64 {
	q := measure(e.content.index, terms, nil)
	out := make([]float64, len(hits))
	for i, h := range hits {
		words := 0.0
		if own := f.least(e, &q, h.Ref); h.words > 0 {
			words = h.words / own
		}
		if f.cosines.answer == 0 { // nothing is known of cosines
			out[i] = words
			continue
		}
		meaning, trust := f.cosines.strength(h.cosine), trust(h.Ref)
		together := max(meaning, min(words, meaning/withWords), words/wordsAlone)
		out[i] = trust*together + (1-trust)*words
	}
	return out
}

// ofFused returns the least score of an answer among fused hits, best first. One of the best hits
// must be an answer by its own cosine, or by words and cosine together; then lower hits are likely
// to be about the same subject.
func (f floor) ofFused(e extent, terms []bm25.Term, hits []fusedHit, trust func(bm25.Ref) float64) float64 {
	if len(hits) == 0 {
		return 0
	}
	strength := slices.Max(f.strengths(e, terms, hits[:min(len(hits), witnesses)], trust))
	if strength < 1 {
		return hits[0].score / max(strength, leastShared)
	}
	return hits[0].score * fusedRest / strength
}

// fusedRest is the fraction of the best score that the other hits need if the best is just an
// answer. The fraction falls as the best hit gets stronger.
const fusedRest = 0.3
