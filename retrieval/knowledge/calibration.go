package knowledge

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"

	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// largeBase is the number of texts from which a calibration is kept for reuse. Keeping it takes
// about 500 KB, and 50 KB per segment. A smaller base is measured in less than 50 ms.
const largeBase = 10_000

// A calibration records how the floor of a base was measured, so that after a small change it need
// not be measured from scratch. It does not change the floor, which depends only on the texts and
// not on how they were indexed.
type calibration struct {
	index     *bm25.Index
	floor     floor
	questions []randomQuestion
}

// A randomQuestion is one of the random questions that measure the noise of a base.
type randomQuestion struct {
	terms [noiseTerms]string // "" where the base has no terms
	best  bm25.Best
}

// calibrateSince measures the noise of x. For the same texts it draws the same questions, whatever
// segments they are in. before is the calibration of an earlier state of the base, and change
// leads from that state to x; both may be nil.
func calibrateSince(ctx context.Context, x *bm25.Index, before *calibration, change *bm25.Change) (*calibration, error) {
	draw, sampler := rand.New(rand.NewPCG(1, 2)), x.Sampler(change)
	c := &calibration{index: x, questions: make([]randomQuestion, noiseQueries)}
	var noise []float64
	for i := range c.questions {
		q, was := &c.questions[i], new(randomQuestion)
		var best *bm25.Best
		if before != nil {
			was = &before.questions[i]
			best = &was.best
		}
		for j := range q.terms {
			q.terms[j] = sampler.Sample(draw.Float64(), was.terms[j])
		}
		terms := q.question()
		var err error
		if q.best, err = x.Best(ctx, terms, best, change); err != nil {
			return nil, err
		}
		if q.best.Score > 0 {
			noise = append(noise, q.best.Score/measure(x, terms, nil).scale())
		}
	}
	c.floor = floorOf(noise, x.Len())
	return c, nil
}

// moveTo returns the calibration for an Index of the same texts in different segments.
func (c *calibration) moveTo(ctx context.Context, x *bm25.Index) (*calibration, error) {
	moved := &calibration{index: x, floor: c.floor, questions: make([]randomQuestion, len(c.questions))}
	change := x.Since(c.index, c.bests())
	for i, q := range c.questions {
		best, ok := change.Move(&q.best)
		if !ok {
			var err error
			if best, err = x.Best(ctx, q.question(), &q.best, change); err != nil {
				return nil, err
			}
		}
		moved.questions[i] = randomQuestion{q.terms, best}
	}
	return moved, nil
}

// bests returns the best hits of all questions.
func (c *calibration) bests() []bm25.Best {
	bests := make([]bm25.Best, len(c.questions))
	for i := range c.questions {
		bests[i] = c.questions[i].best
	}
	return bests
}

// question returns the search terms of q.
func (q *randomQuestion) question() (terms []bm25.Term) {
	for _, t := range q.terms {
		if t != "" {
			terms = append(terms, bm25.Term{Text: t, Weight: 1})
		}
	}
	return terms
}

// calibrate measures the floor of the content. before is the previous content of the base, or nil;
// saved is what Calibration returned for a previous content.
func (c *Content) calibrate(ctx context.Context, before *Content, saved []byte) (err error) {
	m := (*calibration)(nil)
	switch {
	case before == nil || before.measured == nil:
		was, change := c.restore(saved)
		m, err = calibrateSince(ctx, c.index, was, change)
	case before.Generation() == c.Generation() && before.Chunks() == c.Chunks():
		m, err = before.measured.moveTo(ctx, c.index)
	default:
		m, err = calibrateSince(ctx, c.index, before.measured, c.index.Since(before.measured.index, before.measured.bests()))
	}
	if err != nil {
		return err
	}
	if c.floor = m.floor; c.Chunks() >= largeBase {
		c.measured = m
	}
	return nil
}

// A savedCalibration is the serialized form of a calibration.
type savedCalibration struct {
	Scoring  string
	Segments []string // in the order that bm25.Saved numbers them
	Terms    [][noiseTerms]string
	Best     bm25.Saved
}

// Calibration returns a value for ContentOptions.Saved, with which another process measures the
// floor of a large base in a fraction of the time. It is nil for small bases and for segments in
// memory.
func (c *Content) Calibration() []byte {
	if c.measured == nil {
		return nil
	}
	s := savedCalibration{Scoring: bm25.Scoring()}
	for _, segment := range c.segments {
		if segment.Name == "" {
			return nil
		}
		s.Segments = append(s.Segments, segment.Name)
	}
	for _, q := range c.measured.questions {
		s.Terms = append(s.Terms, q.terms)
	}
	if err := c.Guard(func() error {
		s.Best = bm25.Save(c.index, c.measured.bests())
		return nil
	}); err != nil {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return text
}

// restore reverses Calibration; it returns nil if saved can no longer be used.
func (c *Content) restore(saved []byte) (*calibration, *bm25.Change) {
	var s savedCalibration
	if len(saved) == 0 || json.Unmarshal(saved, &s) != nil ||
		s.Scoring != bm25.Scoring() || len(s.Terms) != noiseQueries || len(s.Best.Bests) != noiseQueries {
		return nil, nil
	}
	number := make([]int, len(s.Segments))
	for i, name := range s.Segments {
		number[i] = slices.IndexFunc(c.segments, func(l index.Live) bool { return l.Name == name })
	}
	bests, change, ok := s.Best.Restore(c.index, number)
	if !ok {
		return nil, nil
	}
	was := &calibration{index: c.index, questions: make([]randomQuestion, noiseQueries)}
	for i := range was.questions {
		was.questions[i] = randomQuestion{s.Terms[i], bests[i]}
	}
	return was, change
}
