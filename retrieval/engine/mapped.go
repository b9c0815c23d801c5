package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index/bm25"
)

// A table that others write has no terms of Sidenote's and no place for what is measured. So each
// Engine reads a sample of it, from which it estimates how common terms are and measures the noise.

const (
	// sampledRows is how many rows are read. With 2,000, the standard error of the document frequency
	// of a term that a tenth of the texts have is 7 %.
	sampledRows = 2000
	// sampleEvery is the least time between two samples, however often the content changes.
	sampleEvery = 10 * time.Minute
)

// sampled reports whether the base is a table that others write.
func (e *Engine) sampled(id string) bool { return slices.Contains(e.options.Mapped, id) }

// sample reads a sample of a base and measures it.
func (e *Engine) sample(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	chunks, err := e.options.Server.Sample(ctx, id, sampledRows)
	var m *measured
	if err == nil {
		m, err = measureSample(ctx, chunks, e.state().of(id).State)
	}
	e.health.Looked(err)
	if err != nil {
		return fmt.Errorf("sample %s: %w", id, err)
	}
	e.setMeasured(id, m)
	return nil
}

// measureSample measures a sample of the texts of a base.
func measureSample(ctx context.Context, chunks []Chunk, of State) (*measured, error) {
	m := &measured{sampled: len(chunks), generation: of.Generation, at: time.Now()}
	var b bm25.Builder
	a, counts := new(analyser), map[string]*bm25.CorpusTerm{}
	for _, c := range chunks {
		own, words, err := a.chunk(c.Name, chunk.Chunk{Section: c.Section, Text: c.Text})
		if err != nil {
			return nil, err
		}
		if _, err := b.Add(c.Name, c.Name, c.Section, c.Text); err != nil {
			return nil, fmt.Errorf("index a sample: %w", err)
		}
		m.lengths, m.distinct = m.lengths+uint64(own.Length), m.distinct+uint64(Distinct(own.Packed)) //nolint:gosec // not negative
		for _, t := range sortedCounts(words) {
			all := counts[t.Text]
			if all == nil {
				all = &bm25.CorpusTerm{Text: t.Text}
				counts[t.Text] = all
			}
			all.Texts, all.Total = all.Texts+1, all.Total+uint64(t.Total) //nolint:gosec // not negative
		}
	}
	for _, t := range counts {
		m.terms = append(m.terms, *t)
	}
	slices.SortFunc(m.terms, func(a, b bm25.CorpusTerm) int { return strings.Compare(a.Text, b.Text) })
	var err error
	if m.Noise, err = knowledge.SampleNoise(ctx, &b); err != nil {
		return nil, fmt.Errorf("measure a sample: %w", err)
	}
	m.version = fmt.Sprintf("sample of %d", len(chunks))
	m.own = knowledge.NewVocabulary(m.corpus(of), m.scaled(of), len(chunks) >= of.Chunks)
	return m, nil
}

// sortedCounts counts words.
func sortedCounts(words []string) (counts []TermCount) {
	words = slices.Clone(words)
	slices.Sort(words)
	for _, w := range words {
		if n := len(counts); n > 0 && counts[n-1].Text == w {
			counts[n-1].Total++
			continue
		}
		counts = append(counts, TermCount{Text: w, Texts: 1, Total: 1})
	}
	return counts
}

// scale returns how many texts of the base one of the sample stands for.
func (m *measured) scale(of State) float64 {
	return max(1, float64(of.Chunks)/float64(max(1, m.sampled)))
}

// corpus returns the estimated statistics of a base.
func (m *measured) corpus(of State) bm25.Corpus {
	scale := m.scale(of)
	return bm25.Corpus{Texts: max(of.Chunks, m.sampled), Lengths: uint64(scale * float64(m.lengths)), Terms: uint64(scale * float64(m.distinct))}
}

// scaled returns the estimated counts of all terms of a base.
func (m *measured) scaled(of State) []bm25.CorpusTerm {
	scale, list := m.scale(of), slices.Clone(m.terms)
	for i := range list {
		list[i].Texts, list[i].Total = int(scale*float64(list[i].Texts)), uint64(scale*float64(list[i].Total))
	}
	return list
}

// term returns the estimated count of a term. One that no text of the sample has, but a candidate, is
// in as many texts as would likely escape a sample.
func (m *measured) term(text string, of State, candidates int) bm25.CorpusTerm {
	scale := m.scale(of)
	if i, ok := slices.BinarySearchFunc(m.terms, text, func(t bm25.CorpusTerm, text string) int { return strings.Compare(t.Text, text) }); ok {
		t := m.terms[i]
		return bm25.CorpusTerm{Text: text, Texts: int(scale * float64(t.Texts)), Total: uint64(scale * float64(t.Total))}
	}
	if candidates == 0 {
		return bm25.CorpusTerm{Text: text}
	}
	n := max(candidates, int(scale/2))
	return bm25.CorpusTerm{Text: text, Texts: n, Total: uint64(n)} //nolint:gosec // positive
}

// estimate fills in what the Server does not know of a mapped base: the terms of the candidates and
// how common they are.
func (s *searching) estimate() error {
	f, a := s.found, new(analyser)
	for i := range f.Candidates {
		c := &f.Candidates[i]
		own, _, err := a.chunk(c.Name, chunk.Chunk{Section: c.Section, Text: c.Text})
		if err != nil {
			return err
		}
		c.Packed, c.Length, c.Sketch = own.Packed, own.Length, own.Sketch
		c.AllLengths = max(c.AllLengths, int64(own.Length)*int64(max(1, c.Chunks)))
	}
	m := s.bases[0].measured
	if m == nil {
		m = new(measured)
	}
	s.corpus.Corpus = m.corpus(f.States[0])
	for _, t := range s.request.Terms {
		n := 0
		for i := range f.Candidates {
			n += min(1, Count(f.Candidates[i].Packed, t.Text))
		}
		s.corpus.Terms = append(s.corpus.Terms, m.term(t.Text, f.States[0], n))
	}
	return nil
}
