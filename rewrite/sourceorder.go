package rewrite

import (
	"cmp"
	"slices"

	"sidenote/retrieval"
)

// inOrder returns the indices of blocks, which are sorted by relevance, in prompt order.
func inOrder(o SourceOrder, blocks []sourceBlock) []int {
	order := make([]int, len(blocks))
	for i := range order {
		order[i] = i
	}
	switch o {
	case SourcesAtEdges:
		return atEdges(order)
	case SourcesByDocument:
		best := func(i int) int {
			return slices.IndexFunc(blocks, func(b sourceBlock) bool { return sameDocument(b.source, blocks[i].source) })
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(best(a), best(b)), cmp.Compare(blocks[a].source.Chunk, blocks[b].source.Chunk))
		})
	}
	return order
}

func sameDocument(a, b *retrieval.Source) bool { return a.Knowledge == b.Knowledge && a.Doc == b.Doc }

// atEdges reorders a list that is sorted best first, so that the best are at both ends.
func atEdges[T any](list []T) []T {
	edges := make([]T, len(list))
	for i, e := range list {
		at := i / 2
		if i%2 == 1 {
			at = len(list) - 1 - at
		}
		edges[at] = e
	}
	return edges
}

// arranged returns the first n blocks in prompt order, with their ids there; order holds their
// indices in s.blocks.
func (s *sourceList) arranged(n int) (blocks []sourceBlock, order []int) {
	order = inOrder(s.policy.SourceOrder, s.blocks[:n])
	blocks = make([]sourceBlock, n)
	for at, i := range order {
		b := s.blocks[i]
		if at != i {
			b.head = s.policy.Head(b.source, at+1, s.policy.Template.Tags())
			b = s.weighed(b)
		}
		blocks[at] = b
	}
	return blocks, order
}

// size returns the tokens of a sources element with the first n blocks.
func (s *sourceList) size(n int) int {
	if s.policy.SourceOrder == SourcesByRelevance {
		return s.element(s.blocks[:n]).tokens
	}
	blocks, _ := s.arranged(n)
	return s.element(blocks).tokens
}

// show renders a sources element with the first n blocks and records their ids in the ledger.
func (s *sourceList) show(n int) selection {
	if s.policy.SourceOrder == SourcesByRelevance {
		return s.render(s.blocks[:n])
	}
	blocks, order := s.arranged(n)
	for at, i := range order {
		s.ledger[i].ID, s.ledger[i].Tokens = at+1, blocks[at].tokens
	}
	return s.render(blocks)
}

// inPromptOrder returns the ledger with the added sources in prompt order, before those left out.
func (s *sourceList) inPromptOrder() []SourceEntry {
	if s.ledger == nil { // in JSON an empty list is [], not null
		return []SourceEntry{}
	}
	if s.policy.SourceOrder == SourcesByRelevance {
		return s.ledger
	}
	in := slices.IndexFunc(s.ledger, func(e SourceEntry) bool { return e.ID == 0 })
	if in < 0 {
		in = len(s.ledger)
	}
	slices.SortStableFunc(s.ledger[:in], func(a, b SourceEntry) int { return cmp.Compare(a.ID, b.ID) })
	return s.ledger
}
