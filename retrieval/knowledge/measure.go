package knowledge

import (
	"context"
	"fmt"
	"math/rand/v2"

	"sidenote/retrieval/knowledge/index/bm25"
)

// LeastCalibrated is the fewest texts with vectors from which cosines are measured.
const LeastCalibrated = leastCalibrated

// Sampled is how many passages with vectors are compared with their neighbours, see
// CosinesOf, and Neighbours is how many of these are searched for one in another document.
const (
	Sampled    = sampled
	Neighbours = neighbours
)

// SampledTrials is how many texts TrialsFrom needs.
const SampledTrials = sampledTrials

// NoiseQuestions returns random questions, whose terms are drawn from those of a base by their
// document frequency: always the same for the same terms. Their best scores are noise, see floor.
func NoiseQuestions(terms []bm25.CorpusTerm) [][]bm25.Term {
	draw, before := rand.New(rand.NewPCG(1, 2)), bm25.Before(terms)
	questions := make([][]bm25.Term, noiseQueries)
	for i := range questions {
		var q randomQuestion
		for j := range q.terms {
			q.terms[j] = bm25.SampleTerm(terms, before, draw.Float64())
		}
		questions[i] = q.question()
	}
	return questions
}

// NoiseScore returns the best score of candidates for a random question, in the unit of its scores;
// 0 if none has a term.
func NoiseScore(ctx context.Context, question []bm25.Term, c *Corpus, candidates []Candidate) (float64, error) {
	texts := make([][]bm25.PartText, len(c.Bases))
	for i := range candidates {
		own := &candidates[i]
		texts[own.Base] = append(texts[own.Base], bm25.PartText{Length: own.Length, Freqs: own.Freqs})
	}
	return noiseScore(ctx, bm25.NewPart(c.Corpus, c.Terms, texts), question)
}

func noiseScore(ctx context.Context, x *bm25.Index, question []bm25.Term) (float64, error) {
	hits, err := x.Search(ctx, question, 1, nil, nil)
	if err != nil || len(hits) == 0 {
		return 0, err
	}
	return hits[0].Score / measure(x, question, nil).scale(), nil
}

// NoiseOf returns Measures.Noise for the scores of random questions; those of 0 are left out.
func NoiseOf(scores []float64) float64 {
	var found []float64
	for _, s := range scores {
		if s > 0 {
			found = append(found, s)
		}
	}
	return measuredNoise(found)
}

// SampleNoise returns Measures.Noise for the texts in a builder, which it empties.
func SampleNoise(ctx context.Context, b *bm25.Builder) (float64, error) {
	image, err := b.Build()
	if err != nil {
		return 0, fmt.Errorf("build: %w", err)
	}
	s, err := bm25.Open(image, nil)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	x := bm25.NewIndex([]*bm25.Live{s.Live(nil)}, func(a, b bm25.Ref) int { return a.Text - b.Text })
	draw, sampler, scores := rand.New(rand.NewPCG(1, 2)), x.Sampler(nil), make([]float64, noiseQueries)
	for i := range scores {
		var q randomQuestion
		for j := range q.terms {
			q.terms[j] = sampler.Sample(draw.Float64(), "")
		}
		if scores[i], err = noiseScore(ctx, x, q.question()); err != nil {
			return 0, err
		}
	}
	return NoiseOf(scores), nil
}

// CosinesOf returns the cosine floor: noise are the greatest cosines of Probes, near those of sampled
// passages and their nearest passage in another document. ok is false if they do not tell an answer
// from noise.
func CosinesOf(noise, near []float64) (low, answer float64, ok bool) {
	f := cosinesOf(noise, near)
	return f.noise, f.answer, f.answer > 0
}

// WeightOf measures the weight of vectors, see DenseWeight. vectors are those of TextsOf(trials).
func WeightOf(ctx context.Context, trials []Trial, vectors [][]float32) (weight float64, ok bool, err error) {
	return measureWeight(ctx, trials, vectors)
}
