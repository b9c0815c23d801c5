package knowledge

import (
	"context"
	"errors"
	"slices"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/dense"
)

// KeptFilters returns the number of filters whose matching texts a content caches.
func (c *Content) KeptFilters() int {
	c.filters.mu.Lock()
	defer c.filters.mu.Unlock()
	return len(c.filters.kept)
}

// MostFilters is the limit of KeptFilters.
const MostFilters = keptFilters

// Segmented returns the content of groups of documents, each group in its own segments. Of
// documents with the same id, that of the last group is live.
func Segmented(ctx context.Context, deps Deps, groups ...[]chunk.Document) (*Content, error) {
	var segments index.Segments
	later := map[string]bool{}
	for _, group := range slices.Backward(groups) {
		dead := map[int64]bool{}
		writer := index.Writer{Emit: func(image []byte, _ []int64) error {
			s, err := index.Open("", image, nil)
			if err == nil {
				segments = append(segments, s.Without(s.WithRows(dead), nil))
			}
			return err
		}}
		for i, d := range group {
			d, err := d.Normal()
			if err != nil {
				return nil, err
			}
			cut, err := deps.Cut("", d)
			if err != nil {
				return nil, err
			}
			dead[int64(i)] = later[d.ID]
			if err := writer.Add(cut.indexed(int64(i))); err != nil {
				return nil, err
			}
		}
		if err := writer.Flush(); err != nil {
			return nil, err
		}
		for _, d := range group {
			later[d.ID] = true
		}
	}
	return NewContent(ctx, segments, ContentOptions{Generation: "00"})
}

// KeptUnions returns the number of base combinations that a group caches.
func (g *Group) KeptUnions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.kept)
}

// MostUnions is the limit of KeptUnions.
const MostUnions = keptUnions

// PartOf returns c as the content of a folder that was not read completely.
func PartOf(c *Content) *Content {
	part := &Content{segments: c.segments, index: c.index, options: c.options, floor: c.floor, filters: newFilterCache()}
	part.options.Partial = true
	return part
}

// Scribbled returns a content whose postings were overwritten after it was opened.
func Scribbled(ctx context.Context, deps Deps, d chunk.Document) (*Content, error) {
	cut, err := deps.Cut("", d)
	if err != nil {
		return nil, err
	}
	var segments index.Segments
	var written []byte
	writer := index.Writer{Emit: func(image []byte, rows []int64) error {
		written = image
		return segments.Take(image, rows)
	}}
	if err := errors.Join(writer.Add(cut.indexed(0)), writer.Flush()); err != nil {
		return nil, err
	}
	c, err := NewContent(ctx, segments, ContentOptions{Generation: "00"})
	postings := written[len(written)/2:]
	for i := range postings {
		postings[i] = 0xff
	}
	return c, err
}

// LargeBase is the number of texts from which a floor is updated from the previous one.
const LargeBase = largeBase

// Noise returns the measured noise of a content.
func (c *Content) Noise() float64 { return c.floor.noise }

// Embed returns the content of documents with the vectors of their passages; vector returns nil
// for none.
func Embed(ctx context.Context, deps Deps, vector func(passage string) []float32, documents []chunk.Document) (*Content, error) {
	bare, err := Segmented(ctx, deps, documents)
	if err != nil {
		return nil, err
	}
	segments := slices.Clone(bare.segments)
	kept := make([]map[int][]byte, len(segments))
	for ref, passage := range segments.Passages() {
		v := vector(passage)
		if v == nil {
			continue
		}
		if kept[ref.Segment] == nil {
			kept[ref.Segment] = map[int][]byte{}
		}
		if kept[ref.Segment][ref.Text], err = dense.Quantize(v); err != nil {
			return nil, err
		}
	}
	for i := range segments {
		image, err := segments[i].MakeVectors("test", kept[i])
		if err != nil {
			return nil, err
		}
		vectors, err := index.OpenVectors("", image, "test", nil)
		if err != nil {
			return nil, err
		}
		if segments[i], err = segments[i].WithVectors(vectors); err != nil {
			return nil, err
		}
	}
	o := ContentOptions{Generation: "00"}
	for _, p := range Probes() {
		o.Probes = append(o.Probes, vector(p))
	}
	for _, text := range TrialTexts(segments) {
		o.Trials = append(o.Trials, vector(text))
	}
	return NewContent(ctx, segments, o)
}

// MiddleSentence returns the question that a trial makes from a text.
func MiddleSentence(text string) string { return middleSentence(text) }

// Fewest is the fewest trials that a weight is measured from.
const Fewest = leastTrials

// MostCorrected is the most words of a question that are corrected.
const MostCorrected = mostCorrected

// CosineFloor returns the measured cosines of noise and of the least answer.
func (c *Content) CosineFloor() (noise, answer float64) {
	return c.floor.cosines.noise, c.floor.cosines.answer
}

// MeasureWeight returns the weight of vectors, from those of TrialTexts.
func MeasureWeight(ctx context.Context, trials []Trial, vectors [][]float32) (weight float64, ok bool, err error) {
	return measureWeight(ctx, trials, vectors)
}

// ReadVersions makes the content know the newest versions of documents.
func (c *Content) ReadVersions() {
	e := extent{content: c}
	c.timeline.once.Do(func() { c.timeline.known.Store(e.readVersions()) })
}
