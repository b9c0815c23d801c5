package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// measuredChange is the relative change of the number of chunks, or of those with vectors, from
	// which a base is measured again.
	measuredChange = 0.05
	smallBase      = 2000
	// atOnce is how many searches measure a base at a time: requests come first.
	atOnce = 2
)

// A measuring measures a base by searches in its engine.
type measuring struct {
	server   Server
	passages Passages // nil for none
	state    State
}

// stepOf identifies about how large the base is.
func stepOf(s *State) string {
	step := func(n int) int {
		if n <= 0 {
			return 0
		}
		return int(math.Log(float64(n)) / math.Log1p(measuredChange))
	}
	return fmt.Sprintf("%s %d %d %s", rankVersion, step(s.Chunks), step(s.Embedded), s.Space)
}

// versionOf identifies what is stored with a state: its measures, which are those of its step, and its
// vocabulary, which in a small base is exact.
func versionOf(s *State, step string) string {
	if s.Chunks < smallBase {
		step += " " + s.Generation
	}
	sum := sha256.Sum256([]byte(step))
	return hex.EncodeToString(sum[:16])
}

// measure measures the base, unless that was done for about the same content, and stores the result
// for all.
func (s *syncing) measure(ctx context.Context, state State) error {
	step := stepOf(&state)
	version := versionOf(&state, step)
	if state.Measures == version || state.Chunks == 0 {
		return nil
	}
	m := &measuring{s.Server, s.Passages, state}
	measured, err := m.vocabulary(ctx)
	if err != nil {
		return err
	}
	if before, ok := m.before(ctx, step); ok {
		measured.Measures = before
	} else if err := m.run(ctx, measured); err != nil {
		return err
	}
	measured.step = step
	stored, err := measured.encode()
	if err != nil {
		return err
	}
	return s.lease.SetMeasures(ctx, version, stored)
}

// before returns what was measured of a base of about the same size.
func (m *measuring) before(ctx context.Context, step string) (found knowledge.Measures, ok bool) {
	if m.state.Measures == "" {
		return found, false
	}
	stored, err := m.server.Measures(ctx, m.state.Base)
	if err != nil {
		return found, false
	}
	was, err := decodeMeasured(m.state.Measures, stored, &m.state)
	if err != nil || was.step != step {
		return found, false
	}
	return was.Measures, true
}

// vocabulary reads the most frequent words, with all terms in drawn.
func (m *measuring) vocabulary(ctx context.Context) (*measured, error) {
	counts, err := m.server.Vocabulary(ctx, m.state.Base, mostVocabulary)
	if err != nil {
		return nil, err
	}
	found := &measured{whole: len(counts) < mostVocabulary}
	for _, t := range counts {
		if t.Texts < 1 {
			continue
		}
		one := bm25.CorpusTerm{Text: t.Text, Texts: t.Texts, Total: uint64(max(t.Total, int64(t.Texts)))} //nolint:gosec // positive
		if found.drawn = append(found.drawn, one); analysis.Alphabetic(t.Text) {
			found.terms = append(found.terms, one)
		}
	}
	byText := func(a, b bm25.CorpusTerm) int { return strings.Compare(a.Text, b.Text) }
	slices.SortFunc(found.drawn, byText)
	slices.SortFunc(found.terms, byText)
	return found, nil
}

// run measures the base. In a small one the noise has a cap that no measure exceeds, see
// knowledge.Measures.
func (m *measuring) run(ctx context.Context, found *measured) (err error) {
	if m.state.Chunks >= smallBase {
		if found.Noise, err = m.noise(ctx, found.drawn); err != nil {
			return err
		}
	}
	if m.passages == nil || m.state.Embedded == 0 {
		return nil
	}
	sample, err := m.server.Sample(ctx, m.state.Base, knowledge.SampledTrials)
	if err != nil {
		return err
	}
	if err := m.cosines(ctx, found, sample); err != nil {
		return err
	}
	return m.weight(ctx, found, sample)
}

// noise measures the scores of random questions.
func (m *measuring) noise(ctx context.Context, terms []bm25.CorpusTerm) (float64, error) {
	questions := knowledge.NoiseQuestions(terms)
	scores := make([]float64, len(questions))
	err := m.each(ctx, len(questions), func(ctx context.Context, i int) (err error) {
		scores[i], err = m.noiseScore(ctx, questions[i])
		return err
	})
	return knowledge.NoiseOf(scores), err
}

func (m *measuring) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

func (m *measuring) noiseScore(ctx context.Context, question []bm25.Term) (float64, error) {
	slices.SortStableFunc(question, bm25.ByText)
	s := searching{ids: []string{m.state.Base}, request: Search{Bases: []string{m.state.Base}, Terms: searchTerms(question), Depth: 10}}
	if len(s.request.Terms) == 0 {
		return 0, nil
	}
	var err error
	if s.found, err = m.server.Search(ctx, &s.request); err != nil {
		return 0, err
	}
	s.corpus.Bases = []knowledge.RemoteBase{{ID: m.state.Base}}
	if err := s.count(); err != nil {
		return 0, err
	}
	s.convert()
	return knowledge.NoiseScore(ctx, question, &s.corpus, s.list)
}

// cosines measures the cosines of messages about nothing, and of similar passages.
func (m *measuring) cosines(ctx context.Context, found *measured, sample []Chunk) error {
	if m.state.Embedded < knowledge.LeastCalibrated {
		return nil
	}
	probes, err := m.embedAll(ctx, knowledge.Probes())
	if err != nil {
		return err
	}
	noise, near := make([]float64, len(probes)), []float64(nil)
	for i, v := range probes {
		hits, err := m.nearest(ctx, v, 1)
		if err != nil {
			return err
		}
		for _, h := range hits {
			noise[i] = max(noise[i], h.Cosine)
		}
	}
	for _, c := range sample {
		if c.Vector == nil || len(near) == knowledge.Sampled {
			continue
		}
		hits, err := m.nearest(ctx, c.Vector, knowledge.Neighbours)
		if err != nil {
			return err
		}
		best := math.Inf(-1)
		for _, h := range hits {
			if h.Doc != c.Doc {
				best = max(best, h.Cosine)
			}
		}
		if !math.IsInf(best, -1) {
			near = append(near, best)
		}
	}
	found.CosineNoise, found.CosineAnswer, _ = knowledge.CosinesOf(noise, near)
	return nil
}

// nearest returns the n chunks whose vectors are most similar.
func (m *measuring) nearest(ctx context.Context, v []float32, n int) ([]Candidate, error) {
	v, err := unit(v)
	if err != nil {
		return nil, err
	}
	found, err := m.server.Search(ctx, &Search{Bases: []string{m.state.Base}, Vector: v, Depth: n})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.Candidates, func(c Candidate) bool { return c.ByVector == 0 }), nil
}

// weight measures the weight of vectors by questions made of the texts themselves.
func (m *measuring) weight(ctx context.Context, found *measured, sample []Chunk) error {
	trials := knowledge.TrialsFrom(func(yield func(retrieval.Source) bool) {
		for _, c := range sample {
			if !yield(retrieval.Source{Name: c.Name, Section: c.Section, Text: c.Text}) {
				return
			}
		}
	})
	if trials == nil {
		return nil
	}
	vectors, err := m.embedAll(ctx, knowledge.TextsOf(trials))
	if err != nil {
		return err
	}
	found.Weight, found.Weighed, err = knowledge.WeightOf(ctx, trials, vectors)
	return err
}

// embedAtOnce is how many questions one call embeds.
const embedAtOnce = 32

// embedAll embeds questions.
func (m *measuring) embedAll(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	for part := range slices.Chunk(texts, embedAtOnce) {
		made, err := m.passages.Embed(ctx, part)
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, made...)
	}
	return vectors, nil
}
