package knowledge

import (
	"context"
	"slices"

	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/index"
)

// KeptFilters returns for how many filters a content keeps what they allow.
func (c *Content) KeptFilters() int {
	c.filters.mu.Lock()
	defer c.filters.mu.Unlock()
	return len(c.filters.kept)
}

// MostFilters is how many are kept at most.
const MostFilters = keptFilters

// Segmented returns the content of groups of documents, each group in segments of its
// own. Of documents with one id that of the last group stays.
func Segmented(ctx context.Context, deps Deps, groups ...[]document.Document) (*Content, error) {
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
