package index

import (
	"fmt"
	"runtime"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/index/bm25"
)

// decodeSets decodes the sets of attributes in a segment.
func (s *Segment) decodeSets() ([]map[string]any, error) {
	sets := make([]map[string]any, s.texts.sets)
	for i := range sets {
		var err error
		if sets[i], err = document.DecodeAttributes(string(s.texts.set(i))); err != nil {
			return nil, &DamageError{Segment: s, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
	}
	runtime.KeepAlive(s)
	return sets, nil
}

// attributes returns those of a document, which are shared: nobody changes them.
func (s *Segment) attributes(d int) (map[string]any, error) {
	sets, err := s.sets()
	if err != nil {
		return nil, err
	}
	set := number(s.texts.setOf, d)
	runtime.KeepAlive(s)
	return sets[set], nil
}

// Allowed returns the texts of the documents that a filter chooses, gone ones
// included, and whether they are all. Each different set of attributes is looked at
// once.
func (s *Segment) Allowed(f *retrieval.Filter) (allowed bm25.Bitmap, all bool, err error) {
	sets, err := s.sets()
	if err != nil {
		return nil, false, err
	}
	chosen, n := make([]bool, len(sets)), 0
	for i, set := range sets {
		if chosen[i] = f.Match(set); chosen[i] {
			n++
		}
	}
	defer runtime.KeepAlive(s)
	if n == 0 {
		return nil, s.texts.documents == 0, nil
	}
	allowed = make(bm25.Bitmap, (s.texts.count+63)/64)
	for d := range s.texts.documents {
		if chosen[number(s.texts.setOf, d)] {
			allowed.AddRange(s.texts.first(d), s.texts.first(d+1))
		}
	}
	return allowed, n == len(sets), nil
}
