package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// A slot holds a component while it is fitted into the prompt.
type slot struct {
	Component
	isSources bool
	parts     []string // the rendered text in whole lines; nil if it is left out
	text      int      // tokens of a named text as rendered, without its tags
	entry     ComponentEntry
}

// A fitter chooses which components go into a token budget. The counts of single blocks
// can be added, because every block is whole lines that start with '<' (see
// tokens.Sum). Whoever places the block counts the joins to the application's text.
type fitter struct {
	policy  Policy
	counter retrieval.Counter
	known   retrieval.Counter // counter, with the counts that the engine stored for sources
	rules   string            // the line under <sources>; "" if it stands elsewhere
	closing string            // the line above </sources> in a long element

	slots          []slot             // as declared
	found          []retrieval.Source // the sources to choose from
	presence       presence           // finds texts in the request's own messages
	bare           []sourceBlock      // rendered sources under ids 1…n, without neighbours
	blocks         []sourceBlock      // the same, some with neighbours
	ledger         []SourceEntry      // parallel to blocks
	neighbourTexts []string           // texts of neighbours added in this fit or an earlier one
	skippedPresent bool               // a neighbour was left out because the messages hold its text
	exact          bool
}

func (f *fitter) count(text string) int {
	n, exact := f.counter.Count(text)
	f.exact = f.exact && exact
	return n
}

// weigh renders and counts all sources once, before the room is known.
func (f *fitter) weigh() {
	f.exact = true
	f.bare = make([]sourceBlock, len(f.found))
	f.ledger = make([]SourceEntry, len(f.found))
	var counted []tokens.Counted
	for i, s := range f.found {
		f.bare[i] = newBlock(s, i+1, f.policy)
		f.ledger[i] = newEntry(s)
		if s.Tokens > 0 && f.bare[i].body == s.Text {
			counted = append(counted, tokens.Counted{Text: s.Text, Tokens: s.Tokens})
		}
	}
	f.known = tokens.Knowing(f.counter, counted...)
	for i, b := range f.bare {
		f.bare[i] = f.weighed(b)
	}
}

func (f *fitter) weighed(b sourceBlock) sourceBlock {
	n, exact := tokens.Sum(f.known, b.head, b.body, sourceClose)
	f.exact = f.exact && exact
	b.tokens = n
	b.text = max(0, n-f.count(b.head)-f.count(sourceClose))
	return b
}

func newEntry(s retrieval.Source) SourceEntry {
	return SourceEntry{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Score: s.Score}
}

// fit chooses what goes into room tokens, highest priority first. Components that may
// not be cut go in whole or not at all, before all others. Of the others, the first
// that does not fit is cut, and those after it are left out. Neighbours fill the rest.
func (f *fitter) fit(room int) {
	f.blocks = slices.Clone(f.bare)
	for i := range f.ledger {
		f.ledger[i].Neighbours = 0
	}
	order := make([]*slot, len(f.slots))
	for i := range f.slots {
		order[i] = &f.slots[i]
	}
	slices.SortStableFunc(order, func(a, b *slot) int { return b.Priority - a.Priority })
	for _, s := range order {
		if !s.Truncatable {
			room -= f.whole(s, room)
		}
	}
	full := false
	for _, s := range order {
		if !s.Truncatable {
			continue
		}
		room -= f.whole(s, room)
		switch {
		case full:
			f.out(s, "below the first that was cut")
		case s.entry.Fate == Out:
			full = true
			f.cut(s, room)
		}
	}
	if !full {
		f.neighbours(room)
	}
}

func (f *fitter) out(s *slot, reason string) {
	s.parts, s.text = nil, 0
	s.entry.Fate, s.entry.Tokens, s.entry.Reason = Out, 0, reason
	if s.isSources {
		f.drop(0, reason)
	}
}

// drop marks the sources from the n-th on as left out.
func (f *fitter) drop(n int, reason string) {
	for i := n; i < len(f.ledger); i++ {
		e := &f.ledger[i]
		e.ID, e.Fate, e.Tokens, e.Demand, e.Reason = 0, Out, 0, f.bare[i].tokens, reason
	}
}

// keep records in the ledger that the i-th source goes in as block b.
func (f *fitter) keep(i int, b sourceBlock, fate Fate, reason string) {
	f.blocks[i] = b
	e := &f.ledger[i]
	e.ID, e.Fate, e.Tokens, e.Reason = i+1, fate, b.tokens, reason
	e.Demand = max(b.tokens, f.bare[i].tokens)
}

// whole takes a component if all of it fits and returns its tokens, else 0.
func (f *fitter) whole(s *slot, room int) int {
	var need int
	if s.isSources {
		need = f.element(f.blocks)
	} else {
		need = f.count(renderComponent(s.Name, s.Text))
	}
	s.entry = ComponentEntry{Name: s.Name, Priority: s.Priority, Demand: need}
	if need > room {
		f.out(s, fmt.Sprintf("needs %d tokens, %d left", need, room))
		return 0
	}
	if s.isSources {
		for i, b := range f.blocks {
			f.keep(i, b, In, "")
		}
		s.parts = f.render(f.blocks)
	} else {
		s.parts = []string{renderComponent(s.Name, s.Text)}
		s.text = max(0, need-f.count(renderComponent(s.Name, "")))
	}
	s.entry.Fate, s.entry.Tokens = In, need
	return need
}

// element is size without the second result.
func (f *fitter) element(blocks []sourceBlock) int {
	n, _ := f.size(blocks)
	return n
}

// size returns the tokens of a sources element with the given blocks, and whether it is
// long enough to repeat the rules at its end.
func (f *fitter) size(blocks []sourceBlock) (n int, closing bool) {
	n = f.count(tags.SourcesOpen+f.rules) + f.count(tags.SourcesClose)
	for i := range blocks {
		n += blocks[i].tokens
	}
	if n > closingAbove {
		return n + f.count(f.closing), true
	}
	return n, false
}

// render returns a sources element with the given blocks, in parts whose counts add up.
func (f *fitter) render(blocks []sourceBlock) []string {
	parts := make([]string, 0, 3*len(blocks)+3)
	parts = append(parts, tags.SourcesOpen+f.rules)
	for i := range blocks {
		parts = append(parts, blocks[i].head, blocks[i].body, sourceClose)
	}
	if _, closing := f.size(blocks); closing {
		parts = append(parts, f.closing)
	}
	return append(parts, tags.SourcesClose)
}

// cut takes as much of a component as fits.
func (f *fitter) cut(s *slot, room int) {
	if s.isSources {
		f.cutSources(s, room)
		return
	}
	text, need := f.shorten(s.Text, room, func(text string) int { return f.count(renderComponent(s.Name, text)) })
	if text == "" {
		return
	}
	s.parts = []string{renderComponent(s.Name, text)}
	s.text = max(0, need-f.count(renderComponent(s.Name, "")))
	s.entry.Fate, s.entry.Tokens, s.entry.Reason = Cut, need, reasonCut
}

const reasonCut = "cut to the budget"

// cutSources takes the best sources that fit whole. If not even the first one fits,
// that one's text is cut.
func (f *fitter) cutSources(s *slot, room int) {
	if len(f.blocks) == 0 {
		return
	}
	n := len(f.blocks)
	for n > 0 && f.element(f.blocks[:n]) > room {
		n--
	}
	blocks := f.blocks[:n]
	f.drop(n, "beyond the token budget")
	if n == 0 {
		first, ok := f.cutFirst(room)
		if !ok {
			return
		}
		blocks = []sourceBlock{first}
		f.keep(0, first, Cut, reasonCut)
	} else {
		for i, b := range blocks {
			f.keep(i, b, In, "")
		}
	}
	s.parts = f.render(blocks)
	s.entry.Fate, s.entry.Tokens, s.entry.Reason = Cut, f.element(blocks), reasonCut
}

// cutFirst cuts the text of the best source so that it fits alone.
func (f *fitter) cutFirst(room int) (sourceBlock, bool) {
	first := f.blocks[0]
	text, _ := f.shorten(first.body, room, func(text string) int {
		first.body = text
		first = f.weighed(first)
		return f.element([]sourceBlock{first})
	})
	return first, text != ""
}

// shorten cuts text so that its cost stays within room, and appends a mark. It returns
// "" if less than the policy's MinTruncatedTokens would be left. A cut can turn code
// into what looks like a tag ("i<source.length" cut before the dot), so the result is
// neutralised again; what EscapeAll escapes is escaped already.
func (f *fitter) shorten(text string, room int, cost func(string) int) (string, int) {
	limit := room - cost(cutMarker)
	for limit >= f.policy.MinTruncatedTokens {
		short := strings.TrimRight(tokens.Cut(f.counter, text, limit), " \t\n")
		if short == "" {
			break
		}
		short, _ = f.policy.Template.vocabulary().Neutralise(short+cutMarker, false)
		n := cost(short)
		if n <= room {
			return short, n
		}
		limit -= n - room
	}
	return "", 0
}

// neighbours adds the chunks next to the selected sources where room is left: best
// source first, the following chunk before the preceding one, each chunk once.
func (f *fitter) neighbours(room int) {
	s := f.sourcesSlot()
	if s == nil || s.entry.Fate != In {
		return
	}
	type chunk struct {
		kb, doc string
		n       int
	}
	there := make(map[chunk]bool, 2*len(f.blocks))
	for _, b := range f.blocks {
		there[chunk{b.source.Knowledge, b.source.Doc, b.source.Chunk}] = true
	}
	grown := false
	add := func(i, next int, text string) {
		src := f.blocks[i].source
		at := chunk{src.Knowledge, src.Doc, src.Chunk + next}
		if !strings.ContainsFunc(text, visible) || there[at] {
			return
		}
		b := f.blocks[i]
		if next > 0 {
			b.raw += "\n\n" + text
		} else {
			b.raw = text + "\n\n" + b.raw
		}
		b.body = safeBody(b.raw, f.policy) // neutralised after joining: a tag may be split over two chunks
		b = f.weighed(b)
		if more := b.tokens - f.blocks[i].tokens; more <= room {
			if f.presence.contains(text) {
				f.skippedPresent = true
				return
			}
			room -= more
			f.neighbourTexts = append(f.neighbourTexts, text)
			f.keep(i, b, In, "")
			f.ledger[i].Neighbours++
			there[at], grown = true, true
		}
	}
	for i := range f.blocks {
		add(i, +1, f.blocks[i].source.After)
		add(i, -1, f.blocks[i].source.Before)
	}
	if grown {
		s.parts = f.render(f.blocks)
		s.entry.Tokens = f.element(f.blocks)
		s.entry.Demand = s.entry.Tokens
	}
}

func (f *fitter) sourcesSlot() *slot {
	for i := range f.slots {
		if f.slots[i].isSources {
			return &f.slots[i]
		}
	}
	return nil
}
