package rewrite

import (
	"slices"

	"sidenote/retrieval"
	"sidenote/rewrite/present"
	"sidenote/rewrite/tokens"
)

// A sourceList is the content of the sources element.
type sourceList struct {
	*meter
	dress
	opening string // what stands above the first source, rules included
	closing string // the line behind the last source of a long element
	rules   int    // tokens of the rules

	presence       present.Messages // finds texts in the request's own messages
	bare           []sourceBlock    // rendered sources by relevance, under ids 1…n, without neighbours
	blocks         []sourceBlock    // the same, some with neighbours
	ledger         []SourceEntry    // parallel to blocks
	neighbourTexts []string         // texts of neighbours added in this fit or an earlier one
	skippedPresent bool             // a neighbour was left out because the messages hold its text

	beside func(src *retrieval.Source, n int) (text string, ok bool) // reads another chunk of a source's section
}

// newSourceList renders and counts all sources once, before the room is known. The rules
// are "" if they stand elsewhere.
func newSourceList(m *meter, r renderings, found []retrieval.Source, presence present.Messages, rules, closing string) *sourceList {
	s := &sourceList{
		meter: m, dress: m.policy.dress(), opening: m.policy.dress().open + rules, closing: closing, presence: presence,
		bare: make([]sourceBlock, len(found)), ledger: make([]SourceEntry, len(found)),
	}
	var counted []tokens.Counted
	for i := range found {
		src := &found[i]
		b, known := r.of(src, i+1)
		if !known {
			b = newBlock(src, i+1, m.policy)
		}
		s.bare[i] = b
		s.ledger[i] = newEntry(src)
		if src.Tokens > 0 && s.bare[i].body == src.Text {
			counted = append(counted, tokens.Counted{Text: src.Text, Tokens: src.Tokens})
		}
	}
	m.known = tokens.Knowing(m.counter, counted...)
	for i, b := range s.bare {
		if b.tokens == 0 {
			exact := s.allExact
			s.allExact = true
			b = s.weighed(b)
			if s.allExact {
				r.keep(b, i+1)
			}
			s.bare[i], s.allExact = b, s.allExact && exact
		}
	}
	s.rules = s.count(rules)
	return s
}

func (s *sourceList) weighed(b sourceBlock) sourceBlock {
	n, exact := tokens.Sum(s.known, b.head, b.body, s.sourceClose)
	s.allExact = s.allExact && exact
	b.tokens = n
	b.text = max(0, n-s.count(b.head)-s.count(s.sourceClose))
	return b
}

// weigh starts anew, without neighbours.
func (s *sourceList) weigh() int {
	s.blocks = slices.Clone(s.bare)
	for i := range s.ledger {
		s.ledger[i].Neighbours = 0
	}
	return s.size(len(s.blocks))
}

func (s *sourceList) whole() taken { return s.first(len(s.blocks)) }

// first takes the n best sources whole.
func (s *sourceList) first(n int) taken {
	for i, b := range s.blocks[:n] {
		s.keep(i, b, In, "", "")
	}
	return s.show(n)
}

// cut takes the best sources that fit whole. If not even the first one fits, that one's
// text is cut.
func (s *sourceList) cut(room int) taken {
	n := len(s.blocks)
	for n > 0 && s.size(n) > room {
		n--
	}
	s.drop(n, ExcludedBudget, "beyond the token budget")
	if n == 0 {
		return s.cutFirst(room)
	}
	return s.first(n)
}

// cutFirst cuts the text of the best source so that it fits alone.
func (s *sourceList) cutFirst(room int) taken {
	if len(s.blocks) == 0 {
		return taken{}
	}
	first := s.blocks[0]
	text, _ := s.shorten(first.body, room, func(text string) int {
		first.body = text
		first = s.weighed(first)
		return s.element([]sourceBlock{first}).tokens
	})
	if text == "" {
		return taken{}
	}
	s.keep(0, first, Cut, ExcludedBudget, detailCut)
	return s.render(s.blocks[:1])
}

func (s *sourceList) leaveOut(reason ExcludeReason, detail string) { s.drop(0, reason, detail) }

// drop marks the sources from the n-th on as left out.
func (s *sourceList) drop(n int, reason ExcludeReason, detail string) {
	for i := n; i < len(s.ledger); i++ {
		e := &s.ledger[i]
		e.ID, e.Fate, e.Tokens, e.Demand, e.Reason, e.Detail = 0, Out, 0, s.bare[i].tokens, reason, detail
	}
}

// keep records in the ledger that the i-th source goes in as block b.
func (s *sourceList) keep(i int, b sourceBlock, fate Fate, reason ExcludeReason, detail string) {
	s.blocks[i] = b
	e := &s.ledger[i]
	e.ID, e.Fate, e.Tokens, e.Reason, e.Detail = i+1, fate, b.tokens, reason, detail
	e.Demand = max(b.tokens, s.bare[i].tokens)
}

// element returns the counts of a sources element with the given blocks, without its
// parts. One that is long repeats the rules at its end.
func (s *sourceList) element(blocks []sourceBlock) taken {
	t := taken{tokens: s.count(s.opening) + s.count(s.close), rules: s.rules}
	for i := range blocks {
		t.tokens += blocks[i].tokens
		t.text += blocks[i].text
	}
	if t.tokens > closingAbove {
		n := s.count(s.closing)
		t.tokens += n
		t.rules += n
	}
	return t
}

// render returns a sources element with the given blocks.
func (s *sourceList) render(blocks []sourceBlock) taken {
	t := s.element(blocks)
	t.parts = append(make([]string, 0, 3*len(blocks)+3), s.opening)
	for i := range blocks {
		t.parts = append(t.parts, blocks[i].head, blocks[i].body, s.sourceClose)
	}
	if t.rules > s.rules {
		t.parts = append(t.parts, s.closing)
	}
	if s.close != "" {
		t.parts = append(t.parts, s.close)
	}
	return t
}
