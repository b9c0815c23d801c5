package engine

import (
	"fmt"
	"maps"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/chunk"
)

// An analyser makes the terms of chunks as an embedded index does: those of the name twice, so that
// they weigh more, then those of the section and the text. It is not safe for concurrent use.
type analyser struct {
	vocabulary analysis.Vocabulary
	sketcher   retrieval.Sketcher
}

// chunk returns a chunk with its terms in order.
func (a *analyser) chunk(name string, c chunk.Chunk) (Chunk, []string, error) {
	var ids []uint32
	length, last := 0, 0
	for _, part := range [...]string{name, name, c.Section, c.Text} {
		var n int
		var err error
		last = len(ids)
		if ids, n, err = a.vocabulary.Append(ids, part); err != nil {
			return Chunk{}, nil, fmt.Errorf("analyse: %w", err)
		}
		length += n
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(a.vocabulary.Bytes(id))
	}
	for _, id := range ids[last:] {
		a.sketcher.Add(a.vocabulary.Bytes(id))
	}
	return Chunk{
		Section: c.Section, Text: c.Text, Tokens: TokensOf(c.Counts), Sketch: a.sketcher.Append(nil), Length: length, Packed: Pack(words),
	}, words, nil
}

// document sets the chunks of a document, with all that is derived from them.
func (a *analyser) document(d *Document, chunks []chunk.Chunk) error {
	counts := map[string]*TermCount{}
	for i, c := range chunks {
		own, words, err := a.chunk(d.Name, c)
		if err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
		own.Ordinal = i
		d.Chunks, d.Words = append(d.Chunks, own), append(d.Words, words)
		seen := make(map[string]bool, len(words))
		for _, term := range words {
			t := counts[term]
			if t == nil {
				t = &TermCount{Text: term}
				counts[term] = t
			}
			t.Total++
			if !seen[term] {
				seen[term] = true
				t.Texts++
			}
		}
	}
	for _, term := range slices.Sorted(maps.Keys(counts)) {
		d.Terms = append(d.Terms, *counts[term])
	}
	if a.vocabulary.Size() > analysis.DefaultLimit/2 {
		a.vocabulary = analysis.Vocabulary{}
	}
	return nil
}
