package rewrite

import (
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// renderings caches sources as rendered in prompts of a policy, with their token counts. New
// questions mostly find sources that others found before: in a small base the same chunks, in a
// large one the popular ones. BenchmarkNewQuestion takes 4 µs and 2 KB with it and fixedTexts, 21
// µs and 20 KB without.
type renderings struct {
	memo     *memo
	policy   string // the policy's digest; "" disables caching
	encoding string
	salt     uint64 // a hash of policy and encoding
}

func (m *memo) renderings(j *job) renderings {
	r := renderings{memo: m, policy: j.policy.Digest, encoding: j.model.Encoding}
	r.salt = 31*retrieval.HashText(r.policy) + retrieval.HashText(r.encoding)
	return r
}

// A renderedSource is a cached source under one id, with everything that it depends on.
type renderedSource struct {
	policy, encoding string
	id               int
	source           shownSource
	block            sourceBlock // without source and raw
}

// A shownSource holds the fields of a source that its rendering depends on.
type shownSource struct {
	kind, knowledge, doc, name, section, text string
	tokens                                    int
}

func shown(src *retrieval.Source) shownSource {
	return shownSource{src.Type, src.Knowledge, src.Doc, src.Name, src.Section, src.Text, src.Tokens}
}

// hash covers only what identifies a chunk, because hashing its text takes longer.
func (r *renderings) hash(src *retrieval.Source, id int) uint64 {
	return 31*(31*(31*r.salt+retrieval.HashText(src.Doc))+uint64(src.Chunk)) + uint64(id) //nolint:gosec // not negative
}

// of returns the cached block of a source under an id, counted; ok is false if there is none.
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

// keep caches a block without neighbours whose count is exact, and returns the block in its
// cached form.
func (r *renderings) keep(b sourceBlock, id int, closing string) sourceBlock {
	if r.policy == "" || !b.exact || len(b.raw)+len(b.head) > maxRemembered {
		return b
	}
	whole := b.whole(closing)
	whole.json = chat.AppendEscaped(make([]byte, 0, len(whole.text)+len(whole.text)/16), whole.text)
	kept := b
	kept.part, kept.head, kept.body = whole, whole.text[:len(b.head)], whole.text[len(b.head):len(whole.text)-len(closing)]
	k := &renderedSource{policy: r.policy, encoding: r.encoding, id: id, source: shown(b.source), block: kept}
	// Do not retain b.raw: a source's text shares its memory with its neighbours.
	if k.block.raw, k.block.source, k.source.text = "", nil, kept.body; b.body != b.raw {
		k.source.text = strings.Clone(b.raw)
	}
	r.memo.blocks.Put(r.hash(b.source, id), k)
	return kept
}
