package knowledge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// Questions embeds questions. A vector that is too late for a caller is kept for the next.
type Questions interface {
	// Question returns the vector of a tenant's question. It returns early when ctx ends.
	Question(ctx context.Context, tenant, text string) ([]float32, error)
}

// An asked is a question vector that is computed while words are searched.
type asked struct {
	came   chan askedVector
	weight float64 // of cosines, see retrieval.Settings.DenseWeight; 0: as measured for each base
	fusion retrieval.Fusion
}

type askedVector struct {
	vector []float32
	err    error
}

// ask starts to embed a question. It returns nil if the extent has no vectors to compare with.
func (g *Group) ask(ctx context.Context, q *retrieval.Query, e *extent) *asked {
	if g.Questions == nil || e.content.vectors == nil {
		return nil
	}
	return g.begin(ctx, q)
}

// begin is ask for an extent with vectors. It is separate so that the query escapes only here.
func (g *Group) begin(ctx context.Context, q *retrieval.Query) *asked {
	a := &asked{came: make(chan askedVector, 1), weight: q.Settings.DenseWeight, fusion: q.Settings.Fusion} // buffered: nobody may wait for a late vector
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
func (a *asked) await(ctx context.Context) (*dense.Question, error) {
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
func (e extent) hybrid(ctx context.Context, terms []bm25.Term, asked *asked, k int, allowed []bm25.Bitmap) (found, retrieval.Stage, error) {
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
	n := min(len(hits), k)
	f := found{hits: make([]bm25.Hit, n), arms: make([]byArms, n), floor: e.floor.ofFused(e.content.index, terms, hits, e.trust)}
	for i := range f.hits {
		h := &hits[i]
		f.hits[i], f.arms[i] = bm25.Hit{Ref: h.Ref, Score: h.score}, byArms{h.arm(), h.words, h.cosine, h.weight}
	}
	return f, "", nil
}

// fused waits for the vector of the question and fuses the hits by vector with the hits by words.
// It reports damage.
func (e extent) fused(ctx context.Context, words []bm25.Hit, asked *asked, k int, allowed []bm25.Bitmap) (hits []fusedHit, err error) {
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
		weight := func(ref bm25.Ref) float64 {
			if asked.weight > 0 {
				return asked.weight
			}
			weight, _ := e.of(ref).content.DenseWeight()
			return weight
		}
		hits, err = merge(words, vectors, func(ref bm25.Ref) (float64, error) {
			if !x.Has(dense.Ref(ref)) {
				return 0, nil
			}
			return x.Cosine(q, dense.Ref(ref))
		})
		if err != nil {
			return err
		}
		for i := range hits {
			hits[i].weight = weight(hits[i].Ref)
		}
		if asked.fusion == retrieval.FusionRanks {
			fuseRanks(hits)
		} else {
			fuseScores(hits, vectors, texts)
		}
		return nil
	})
	e.tellOfVectors(err)
	return hits, err
}

// trust returns how far cosines tell an answer from noise in the base of a text, from 0 to 1. It
// is low if the model does not know the language of the base.
func (e extent) trust(ref bm25.Ref) float64 {
	weight, _ := e.of(ref).content.DenseWeight()
	return weight / retrieval.DefaultDenseWeight
}

// byVectors returns the best k texts by vector alone; none, and the stage, if the question has no
// vector.
func (e extent) byVectors(ctx context.Context, asked *asked, k int, allowed []bm25.Bitmap) (f found, _ retrieval.Stage, err error) {
	q, err := asked.await(ctx)
	if err != nil {
		return found{why: retrieval.EmbedReasonOf(err)}, retrieval.StageEmbed, ctx.Err()
	}
	err = e.content.Guard(func() error {
		hits, err := e.content.vectors.Search(ctx, q, k, wordsOf(allowed))
		for _, h := range hits {
			f.hits = append(f.hits, bm25.Hit{Ref: bm25.Ref(h.Ref), Score: max(0, h.Cosine)})
			f.arms = append(f.arms, byArms{arm: retrieval.ArmVector, cosine: h.Cosine, weight: 1})
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
