package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// A sourceList is the content of the sources element.
type sourceList struct {
	*meter
	fixed *fixedTexts
	known retrieval.Counter // the meter's counter, extended by counts that the search engine stored; nil until needed

	presence       presentMessages // for finding texts in the request's own messages
	bare           []sourceBlock   // rendered sources by relevance, with ids 1 to n, without neighbours
	blocks         []sourceBlock   // the same, possibly with neighbours
	parts          []part          // the last rendering
	ledger         []SourceEntry   // parallel to blocks
	neighbourTexts []string        // texts of neighbours added in this or an earlier attempt
	skippedPresent bool            // a neighbour was left out because the messages contain its text

	beside func(src *retrieval.Source, n int) (text string, ok bool) // reads chunk n of src's document, if it is in src's section
}

// sourceBlock is one source as rendered in the prompt: an opening line, the text, a closing line.
type sourceBlock struct {
	source *retrieval.Source
	raw    string // its text and that of neighbouring chunks added to it
	head   string // ends with a line feed
	body   string // neutralised, without a line feed at its end
	part          // the whole block; its text is built when it is added
	ofBody int    // tokens of body
}

// whole returns the whole block, with the line that closes a source.
func (b *sourceBlock) whole(closing string) part {
	if b.part.text == "" {
		b.part.text = b.head + b.body + closing
	}
	return b.part
}

// newBlock renders a source under an id and neutralises its text. Text already neutralised at
// ingest passes unchanged.
func newBlock(s *retrieval.Source, id int, p *Policy) sourceBlock {
	return sourceBlock{source: s, raw: s.Text, head: p.Head(s, id, p.Template.Tags()), body: p.SafeText(s.Text)}
}

// take renders and counts all sources once, before the room is known.
func (s *sourceList) take(r *renderings, found []retrieval.Source) {
	s.ledger = make([]SourceEntry, len(found))
	for i := range found {
		src := &found[i]
		b, ok := r.of(src, i+1)
		if !ok {
			b = newBlock(src, i+1, s.policy)
		}
		s.bare = append(s.bare, b)
		s.ledger[i] = newEntry(src)
	}
	for i := range s.bare {
		if b := &s.bare[i]; b.tokens == 0 {
			*b = r.keep(s.weighed(*b), i+1, s.fixed.sourceClose.text)
		}
	}
}

// counts returns the meter's counter, extended by the counts that the search engine stored.
func (s *sourceList) counts() retrieval.Counter {
	if s.known == nil {
		var counted []tokens.Counted
		for i := range s.bare {
			if src := s.bare[i].source; src.Tokens > 0 && s.bare[i].body == src.Text {
				counted = append(counted, tokens.Counted{Text: src.Text, Tokens: src.Tokens})
			}
		}
		s.known = tokens.WithKnownCounts(s.counter, counted...)
	}
	return s.known
}

// weighed returns a block with its tokens counted, after its head or body has changed.
func (s *sourceList) weighed(b sourceBlock) sourceBlock {
	n, exact := tokens.Sum(s.counts(), b.head, b.body, s.fixed.sourceClose.text)
	head, exactHead := s.counter.Count(b.head)
	b.part = part{tokens: n, exact: exact && exactHead}
	s.allExact = s.allExact && b.exact
	b.ofBody = max(0, n-head-s.fixed.sourceClose.tokens)
	return b
}

// weigh drops all neighbours and counts the sources.
func (s *sourceList) weigh() int {
	s.blocks = append(s.blocks[:0], s.bare...)
	for i := range s.ledger {
		s.ledger[i].Neighbours = 0
	}
	return s.size(len(s.blocks))
}

func (s *sourceList) whole() selection { return s.first(len(s.blocks)) }

// first selects the n best sources whole.
func (s *sourceList) first(n int) selection {
	for i := range n {
		s.keep(i, Included, "", "")
	}
	return s.show(n)
}

// cut selects the best sources that fit whole. If not even the first one fits, its text is cut.
func (s *sourceList) cut(room int) selection {
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
func (s *sourceList) cutFirst(room int) selection {
	if len(s.blocks) == 0 {
		return selection{}
	}
	first := s.blocks[0]
	text, _ := s.shorten(first.body, room, func(text string) int {
		first.body = text
		first = s.weighed(first)
		return s.element([]sourceBlock{first}).tokens
	})
	if text == "" {
		return selection{}
	}
	s.blocks[0] = first
	s.keep(0, Cut, ExcludedBudget, detailCut)
	return s.render(s.blocks[:1])
}

func (s *sourceList) leaveOut(reason ExcludeReason, detail string) { s.drop(0, reason, detail) }

// drop marks source n and all after it as left out.
func (s *sourceList) drop(n int, reason ExcludeReason, detail string) {
	for i := n; i < len(s.ledger); i++ {
		e := &s.ledger[i]
		e.ID, e.Inclusion, e.Tokens, e.Demand, e.Reason, e.Detail = 0, Excluded, 0, s.bare[i].tokens, reason, detail
	}
}

// keep records in the ledger that source i is added with its current block.
func (s *sourceList) keep(i int, fate Inclusion, reason ExcludeReason, detail string) {
	n, e := s.blocks[i].tokens, &s.ledger[i]
	e.ID, e.Inclusion, e.Tokens, e.Reason, e.Detail = i+1, fate, n, reason, detail
	e.Demand = max(n, s.bare[i].tokens)
}

// element returns the token counts of a sources element with the given blocks, without parts. A
// long element repeats the rules at its end.
func (s *sourceList) element(blocks []sourceBlock) selection {
	f := s.fixed
	t := selection{tokens: f.opening.tokens + f.close.tokens, rules: f.inElement}
	for i := range blocks {
		t.tokens += blocks[i].tokens
		t.text += blocks[i].ofBody
	}
	if t.tokens > closingAbove {
		t.tokens += f.closing.tokens
		t.rules += f.closing.tokens
	}
	return t
}

// render returns a sources element with the given blocks.
func (s *sourceList) render(blocks []sourceBlock) selection {
	t := s.element(blocks)
	s.parts = append(s.parts[:0], s.fixed.opening)
	for i := range blocks {
		s.parts = append(s.parts, blocks[i].whole(s.fixed.sourceClose.text))
	}
	if t.rules > s.fixed.inElement {
		s.parts = append(s.parts, s.fixed.closing)
	}
	t.parts = append(s.parts, s.fixed.close)
	s.parts = t.parts
	return t
}
