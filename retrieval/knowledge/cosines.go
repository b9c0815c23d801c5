package knowledge

import (
	"context"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A cosineFloor tells an answer from noise by the cosine of question and passage. What is
// much differs from model to model, so it is measured for each base: between what messages
// about nothing in particular get in it (Probes), and what passages get from other documents,
// which are about something alike.
//
// Of MiniLM it comes to cosines of .41 and .40 on two collections in English, of
// multilingual-e5-small to .85 on one of them. No message of 137 in six languages gets a source
// there, nor do more than 5 % of the questions of another collection; 2.4 % and 0.5 % of the
// questions lose a right source.
type cosineFloor struct {
	noise  float64
	answer float64 // least cosine of an answer; 0 where nothing was measured
}

const (
	// answerShare is where between noise and passages alike an answer begins.
	answerShare = 0.42
	// withWords is the part of that which is enough for a chunk that is an answer by its words.
	withWords = 0.75
	// wordsAlone is how many times the least of an answer the words make one whatever the cosine:
	// models know little of names, error codes and the like. By MiniLM it gives a source back to
	// one in 250 questions of SciFact, and to no message about nothing.
	wordsAlone = 2
	// sampled is how many passages are compared with their neighbours, and neighbours how many of
	// these are looked through for one of another document.
	sampled    = 48
	neighbours = 16
)

// Probes returns messages that no document answers, to be embedded as questions: what a
// cosine of them means is noise.
func Probes() []string {
	return []string{
		"hello there", "thanks, that helped a lot", "tell me a joke", "how are you today?", "what is your name?",
		"please repeat that", "can you help me with something?", "ok, got it", "what's the weather like tomorrow?",
		"write a short poem about my cat", "who won the game last night?", "I am bored", "summarize what you said above",
		"Guten Morgen, wie geht es dir?", "Danke, das war alles", "Merci beaucoup, bonne journée !", "Raconte-moi une histoire",
		"¿Qué tal estás hoy?", "Cuéntame un chiste", "你好，谢谢你的帮助", "今天天气怎么样？",
	}
}

// strength returns how much of an answer a cosine is: 0 for noise, 1 for the least that is one.
func (f cosineFloor) strength(cosine float64) float64 {
	if f.answer == 0 {
		return 0
	}
	return max(0, (cosine-f.noise)/(f.answer-f.noise))
}

// measureCosines measures the floor of vectors. The same texts and vectors have the same one,
// in whatever segments they are.
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

// nearest returns the cosine of the text that is most like another one, of another document.
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

// strengths are how much of an answer each of some hits is: 1 is the least that is one. trust is
// that of extent.trust: as far as cosines say nothing, words decide alone.
func (f floor) strengths(x *bm25.Index, terms []bm25.Term, hits []fusedHit, trust func(bm25.Ref) float64) []float64 {
	q := measure(x, terms, nil)
	least := f.noise * q.scale()
	q.weigh()
	out := make([]float64, len(hits))
	for i, h := range hits {
		words := 0.0
		if own := least * q.demand(x, h.Ref); h.words > 0 {
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

// ofFused returns the least score of a question's answers among hits that are fused, the best
// first. One of the best has to be an answer by its own cosine, or by words and cosine
// together; then the others, which lie below it in rank, are likely to be about the same.
func (f floor) ofFused(x *bm25.Index, terms []bm25.Term, hits []fusedHit, trust func(bm25.Ref) float64) float64 {
	if len(hits) == 0 {
		return 0
	}
	strength := slices.Max(f.strengths(x, terms, hits[:min(len(hits), witnesses)], trust))
	if strength < 1 {
		return hits[0].score / max(strength, leastShared)
	}
	return hits[0].score * fusedRest / strength
}

// fusedRest is the part of the best score that the others need where it is just an answer; less
// where it is more than that.
const fusedRest = 0.3
