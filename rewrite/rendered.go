package rewrite

import (
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/recent"
)

// renderings are sources as they stood in prompts of a policy lately, with their counts in an
// encoding. New questions mostly find what others found: in a small base the same chunks, in a
// large one those that are popular. BenchmarkCold of the engine takes 66 µs with it and 75 without.
type renderings struct {
	memo     *memo
	policy   string // its digest; "" where nothing is remembered
	encoding string
}

// A renderedSource is one under an id. All that it depends on is compared.
type renderedSource struct {
	policy, encoding string
	id               int
	source           retrieval.Source // as far as it is rendered
	block            sourceBlock      // without source and raw
}

// rendered is the part of a source that a block depends on.
func rendered(src *retrieval.Source) retrieval.Source {
	return retrieval.Source{
		Type: src.Type, Knowledge: src.Knowledge, Doc: src.Doc, Name: src.Name, Section: src.Section, Text: src.Text, Tokens: src.Tokens,
	}
}

func (r renderings) hash(src *retrieval.Source, id int) uint64 {
	return 31*recent.HashText(src.Text) + uint64(id) //nolint:gosec // not negative
}

// of returns a source under an id, weighed; false if it is not remembered.
func (r renderings) of(src *retrieval.Source, id int) (sourceBlock, bool) {
	if r.policy == "" {
		return sourceBlock{}, false
	}
	k := r.memo.blocks.At(r.hash(src, id))
	if k == nil || k.id != id || k.policy != r.policy || k.encoding != r.encoding || k.source != rendered(src) {
		return sourceBlock{}, false
	}
	b := k.block
	b.source, b.raw = src, src.Text
	return b, true
}

// keep remembers a block without neighbours whose count is exact.
func (r renderings) keep(b sourceBlock, id int) {
	if r.policy == "" || len(b.raw)+len(b.head) > maxRemembered {
		return
	}
	k := &renderedSource{policy: r.policy, encoding: r.encoding, id: id, source: rendered(b.source), block: b}
	// A text lies in one piece with its neighbours, which would stay with it.
	k.source.Text, k.block.raw, k.block.source = strings.Clone(b.raw), "", nil
	if k.block.body = k.source.Text; b.body != b.raw {
		k.block.body = strings.Clone(b.body)
	}
	r.memo.blocks.Put(r.hash(b.source, id), k)
}
