package index

import (
	"fmt"
	"runtime"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index/bm25"
)

// attributes returns the attributes of a document.
func (s *Segment) attributes(d int) (map[string]any, error) {
	attributes, err := chunk.DecodeAttributes(string(s.texts.set(number(s.texts.setOf, d))))
	runtime.KeepAlive(s)
	if err != nil {
		return nil, &DamageError{Segment: s, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	return attributes, nil
}

// Allowed returns the texts of the documents that match a filter, including deleted ones, and
// whether they are all. It decodes no attributes: see values.go.
func (s *Segment) Allowed(f *filter.Filter) (allowed bm25.Bitmap, all bool) {
	defer runtime.KeepAlive(s)
	chosen, n := valueIndex{&s.texts}.chosen(f), 0
	for _, is := range chosen {
		if is {
			n++
		}
	}
	if n == 0 {
		return nil, s.texts.documents == 0
	}
	allowed = make(bm25.Bitmap, (s.texts.count+63)/64)
	for d := range s.texts.documents {
		if chosen[number(s.texts.setOf, d)] {
			allowed.AddRange(s.texts.first(d), s.texts.first(d+1))
		}
	}
	return allowed, n == len(chosen)
}
