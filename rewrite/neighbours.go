package rewrite

import (
	"context"
	"slices"

	"sidenote/retrieval"
)

// maxNeighbours is the maximum number of chunks of a section added on each side of a source.
const maxNeighbours = 4

// A neighbourhood adds neighbouring chunks to the selected sources, each chunk once.
type neighbourhood struct {
	*sourceList
	room  int
	there map[chunkID]bool
	grown bool
}

type chunkID struct {
	knowledge, doc string
	n              int
}

// addNeighbours adds chunks next to the sources, all of which are selected, while room is left:
// best source first, the following chunk before the preceding one. It returns no parts if it adds
// none.
func (s *sourceList) addNeighbours(room int) selection {
	if s.policy.Neighbours == NeighboursAdjacent && !slices.ContainsFunc(s.blocks, func(b sourceBlock) bool { return b.source.Before != "" || b.source.After != "" }) {
		return selection{}
	}
	h := neighbourhood{sourceList: s, room: room, there: make(map[chunkID]bool, 2*len(s.blocks))}
	for _, b := range s.blocks {
		h.there[chunkID{b.source.Knowledge, b.source.Doc, b.source.Chunk}] = true
	}
	switch s.policy.Neighbours {
	case NeighboursAdjacent:
		for i := range s.blocks {
			h.add(i, +1, s.blocks[i].source.After)
			h.add(i, -1, s.blocks[i].source.Before)
		}
	case NeighboursSection:
		h.addSections()
	}
	if !h.grown {
		return selection{}
	}
	return s.show(len(s.blocks))
}

// addSections extends the sources within their sections, one chunk on each side of each source
// per round. A side stops at the end of its section and at a chunk that does not fit or is
// already present.
func (h *neighbourhood) addSections() {
	ended := map[[2]int]bool{} // by source and side
	for distance := 1; distance <= maxNeighbours; distance++ {
		for i := range h.blocks {
			for _, side := range [...]int{+1, -1} {
				at := [2]int{i, side}
				if h.room <= 0 || ended[at] {
					continue
				}
				text, ok := h.beside(h.blocks[i].source, h.blocks[i].source.Chunk+side*distance)
				ended[at] = !ok || !h.add(i, side*distance, text)
			}
		}
	}
}

// add adds the chunk that is next chunks after source i (before it, if negative) to the end or
// the beginning of its text. It returns false if the chunk was not added.
func (h *neighbourhood) add(i, next int, text string) bool {
	src := h.blocks[i].source
	at := chunkID{src.Knowledge, src.Doc, src.Chunk + next}
	if !hasVisible(text) || h.there[at] {
		return false
	}
	b := h.blocks[i]
	if next > 0 {
		b.raw += "\n\n" + text
	} else {
		b.raw = text + "\n\n" + b.raw
	}
	b.body = h.policy.SafeText(b.raw) // neutralised after joining, since a tag may be split over two chunks
	b = h.weighed(b)
	more := b.tokens - h.blocks[i].tokens
	if more > h.room {
		return false
	}
	if h.presence.Contain(text) {
		h.skippedPresent = true
		return false
	}
	h.room -= more
	h.neighbourTexts = append(h.neighbourTexts, text)
	h.blocks[i] = b
	h.keep(i, Included, "", "")
	h.ledger[i].Neighbours++
	h.there[at], h.grown = true, true
	return true
}

// besides returns a function that reads other chunks of a source's section, in the index
// generations that were searched. Failures are ignored, since neighbours are optional.
func (rw *Rewriter) besides(ctx context.Context, bases []retrieval.Ref, encoding string) func(src *retrieval.Source, n int) (string, bool) {
	locator, ok := rw.Retriever.(retrieval.Locator)
	return func(src *retrieval.Source, n int) (string, bool) {
		if !ok || !src.At.Kept || n < 0 {
			return "", false
		}
		hit := retrieval.Source{Knowledge: src.Knowledge, Doc: src.Doc, Chunk: n, At: src.At}
		hit.At.Text += n - src.Chunk // a guess at its position
		hits := []*retrieval.Source{&hit}
		texts, err := locator.Locate(ctx, retrieval.Query{Bases: bases, Encoding: encoding}, hits)
		if err != nil || texts.Read(hits) != nil || hit.Section != src.Section {
			return "", false
		}
		return hit.Text, true
	}
}
