package main

import (
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// newReader returns a stack that reads documents and does nothing else.
func newReader() (*stack, error) {
	encodings := tokens.New()
	counter, err := encodings.Encoding(chunkEncoding)
	return &stack{encodings: encodings, counter: counter, children: children()}, err
}

// reading is what bases are read with.
func (s *stack) reading() knowledge.Deps {
	return knowledge.Deps{Counter: s.counter, Child: s.children, Version: chunkEncoding + " " + tokens.Version + " " + tags.Version, Neutralise: func(id, text string) string {
		clean, n := tags.Neutralise(text, false)
		if n > 0 && s.metrics != nil {
			s.metrics.Ingested(id, "indexed", 0, n)
		}
		return clean
	}}
}

// readingFor is what a state folder is opened with. Where something is written, the
// tokens of chunks are counted once, in the encodings by which the models of the table
// count, but for ones that are no longer served.
func (s *stack) readingFor(writing bool) (knowledge.Deps, error) {
	deps := s.reading()
	if !writing {
		return deps, nil
	}
	deps.Encodings = map[string]retrieval.Counter{}
	for _, name := range []string{chunkEncoding, "cl100k_base"} {
		encoding, err := s.encodings.Encoding(name)
		if err != nil {
			return knowledge.Deps{}, err
		}
		deps.Encodings[name] = encoding
	}
	return deps, nil
}
