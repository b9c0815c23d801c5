package rewrite

import (
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// renderings are sources as they stood in prompts of a policy lately, with their counts in an
// encoding. New questions mostly find what others found: in a small base the same chunks, in a
// large one those that are popular. BenchmarkNewQuestion takes 4 µs and 2 KB with them and the
// fixedTexts, 21 µs and 20 KB without.
type renderings struct {
	memo     *memo
	policy   string // its digest; "" where nothing is remembered
	encoding string
	salt     uint64 // a hash of these two
}

func (m *memo) renderings(j *job) renderings {
	r := renderings{memo: m, policy: j.policy.Digest, encoding: j.model.Encoding}
	r.salt = 31*retrieval.HashText(r.policy) + retrieval.HashText(r.encoding)
	return r
}

// A renderedSource is one under an id. All that it depends on is compared.
type renderedSource struct {
	policy, encoding string
	id               int
	source           shownSource
	block            sourceBlock // without source and raw
}

// A shownSource is what of a source a block depends on.
type shownSource struct {
	kind, knowledge, doc, name, section, text string
	tokens                                    int
}

func shown(src *retrieval.Source) shownSource {
	return shownSource{src.Type, src.Knowledge, src.Doc, src.Name, src.Section, src.Text, src.Tokens}
}

// hash takes what names a chunk, because to hash its text takes longer.
func (r *renderings) hash(src *retrieval.Source, id int) uint64 {
	return 31*(31*(31*r.salt+retrieval.HashText(src.Doc))+uint64(src.Chunk)) + uint64(id) //nolint:gosec // not negative
}

// of returns a source under an id, weighed; false if it is not remembered.
func (r *renderings) of(src *retrieval.Source, id int) (b sourceBlock, ok bool) {
	if r.policy == "" {
		return b, false
	}
	k := r.memo.blocks.At(r.hash(src, id))
	if k == nil || k.id != id || k.policy != r.policy || k.encoding != r.encoding || k.source != shown(src) {
		return b, false
	}
	b = k.block
	b.source, b.raw = src, src.Text
	return b, true
}

// keep remembers a block without neighbours whose count is exact, and returns it as it is
// remembered.
func (r *renderings) keep(b sourceBlock, id int, closing string) sourceBlock {
	if r.policy == "" || !b.exact || len(b.raw)+len(b.head) > maxRemembered {
		return b
	}
	whole := b.whole(closing)
	whole.json = chat.AppendEscaped(make([]byte, 0, len(whole.text)+len(whole.text)/16), whole.text)
	kept := b
	kept.part, kept.head, kept.body = whole, whole.text[:len(b.head)], whole.text[len(b.head):len(whole.text)-len(closing)]
	k := &renderedSource{policy: r.policy, encoding: r.encoding, id: id, source: shown(b.source), block: kept}
	// A text lies in one piece with its neighbours, which would stay with it.
	if k.block.raw, k.block.source, k.source.text = "", nil, kept.body; b.body != b.raw {
		k.source.text = strings.Clone(b.raw)
	}
	r.memo.blocks.Put(r.hash(b.source, id), k)
	return kept
}
