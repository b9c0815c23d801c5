package knowledge

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

// A floor tells an answer from noise: chunks that share a word or two with a
// question about something else. What a question could score at most grows with
// the sum S of its terms' idf, terms that the base does not know included, and
// what noise does score grows a little slower. So noise is measured as
// score / S^0.8, which hardly depends on the question's length; the exponent is
// the one that best told the questions of one collection of abstracts from those
// of another.
//
// The measure of this base's own noise is what random questions get: the best
// scores of questions made of terms from anywhere in the base, which belong to no
// one text together. In a base of a few chunks they do, and the measure is capped.
type floor struct{ noise float64 }

const (
	floorExponent = 0.8
	// noiseQueries is how many random questions measure a base's noise. The standard
	// deviation of the measure is 1.3 % on scientific abstracts (1.6 % with 200 questions,
	// 0.9 % with 800), which changes the answer to three in a hundred questions about
	// something else.
	noiseQueries = 400
	noiseTerms   = 8 // about as many as a question has
	// noiseRank picks the floor from the noise. About a quarter of the questions
	// about something else get past it, and 2 % of what answers does not.
	noiseRank = noiseQueries * 2 / 5
	// longQuestion is the number of terms of a question that are measured, the rarest ones.
	longQuestion = 24
	// fewTexts is the number of texts below which idf cannot tell a rare term from a common
	// one; the floor is lowered, so that a text with any term of the question passes.
	fewTexts = 8
	// rest is the part of the floor that the others need once the best hit is above it: when
	// one chunk answers, the next in rank are likely to be about the same.
	rest = 0.6
)

// calibrate measures the noise of x. For the same texts it draws the same questions every
// time, in whatever segments they are.
func calibrate(ctx context.Context, x *bm25.Index) (floor, error) {
	draw := rand.New(rand.NewPCG(1, 2))
	var noise []float64
	for range noiseQueries {
		var terms []bm25.Term
		for range noiseTerms {
			if t := x.Sample(draw.Float64()); t != "" {
				terms = append(terms, bm25.Term{Text: t, Weight: 1})
			}
		}
		hits, err := x.Search(ctx, terms, 1, nil)
		if err != nil {
			return floor{}, err
		}
		if len(hits) > 0 {
			noise = append(noise, hits[0].Score/scale(x, terms))
		}
	}
	if len(noise) == 0 {
		return floor{}, nil
	}
	slices.Sort(noise)
	texts := float64(x.Len())
	most := (0.35 + 0.1*math.Log(texts)) * min(1, texts/fewTexts)
	return floor{noise: min(most, noise[len(noise)*noiseRank/noiseQueries])}, nil
}

// scale returns what the score of a question is measured by. Of a long text that
// somebody pasted only the rarest terms count: nothing could answer all of it.
func scale(x *bm25.Index, terms []bm25.Term) float64 {
	parts := make([]float64, len(terms))
	for i, t := range terms {
		parts[i] = t.Weight * x.IDF(t.Text)
	}
	slices.Sort(parts)
	sum := 0.0
	for _, p := range parts[max(0, len(parts)-longQuestion):] {
		sum += p
	}
	return math.Pow(sum, floorExponent)
}

// of returns the least score of a question's answers. If the best hit is not above the
// noise, none passes.
func (f floor) of(x *bm25.Index, terms []bm25.Term, hits []bm25.Hit) float64 {
	least := f.noise * scale(x, terms)
	if len(hits) > 0 && hits[0].Score >= least {
		return least * rest
	}
	return least
}
