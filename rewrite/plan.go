package rewrite

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// A plan fits elements into the token budget, renders them at their places and counts the result
// together with the application's text around it.
type plan struct {
	meter
	model      *model.Model
	fixed      *fixedTexts
	elements   []element  // in declaration order
	ordered    []*element // reused buffer of sorted
	sources    sourceList // content of the last element if there are sources or a notice; else empty
	places     int
	insertions [maxPlaces]insertion // the first places of these are in use

	budget, used int
	exact        bool
}

// An insertion is the text to insert at one place, in parts.
type insertion struct {
	*chat.Place
	lead, trail string // line feeds between the parts and the application's text
	apart       bool   // the parts are content blocks of their own
	parts       []part // empty: nothing is inserted here
}

// makePlan creates the elements for the policy's components and for the sources or, with notice,
// for the notice that there are none.
func (j *job) makePlan(m *memo, sources []retrieval.Source, notice bool) *plan {
	p := &j.plan
	p.fixed = newFixedTexts(j, notice)
	p.meter = meter{policy: j.policy, counter: j.model.Counter, allExact: p.fixed.exact}
	p.model, p.budget, p.places = &j.model, j.budget(), j.places.n
	for i := range p.places {
		p.insertions[i].Place = &j.places.at[i]
		p.insertions[i].apart = j.searchResults && i > 0
	}
	for _, c := range j.policy.Components {
		c.Text = j.policy.SafeText(c.Text)
		p.elements = append(p.elements, element{Component: c, content: &namedText{meter: &p.meter, name: c.Name, text: c.Text}})
	}
	s := &p.sources
	s.meter, s.fixed, s.presence, s.beside, s.firstID = &p.meter, p.fixed, j.presence, j.readChunk, j.firstID
	if len(sources) > 0 || notice {
		r := m.renderings(j)
		s.take(&r, sources)
		e := element{Component: j.policy.Sources, content: s, place: p.places - 1}
		e.Name = SourcesName
		p.elements = append(p.elements, e)
	}
	return p
}

// assemble fits the elements, renders them in place and counts the result exactly. If tokens at
// the joins exceed the budget, it tries again with less room. It returns false if nothing fits.
func (p *plan) assemble() bool {
	for room := p.model.Counted(p.budget) - p.around(); room > 0; room -= max(1, p.used-p.budget) {
		if adds := p.into(room); !adds || p.used <= p.budget {
			return adds
		}
	}
	return p.into(0) && p.used <= p.budget // rules placed outside the sources may still fit
}

// into fits elements into room tokens, renders them and counts the result. It returns false if
// nothing is added.
func (p *plan) into(room int) (adds bool) {
	p.fit(room)
	p.compose()
	return p.weigh()
}

// around estimates the tokens around the elements: the template's text, the overhead of a new
// message, and rules placed outside the sources.
func (p *plan) around() int {
	n := p.fixed.around
	if p.insertions[0].Added {
		n += tokens.MessageOverhead
	}
	return n
}

// fit selects elements for room tokens, highest priority first. Elements that may not be cut come
// before all others, each whole or not at all. Of the others, the first that does not fit is cut
// and the rest are left out. Neighbouring chunks fill what is left.
func (p *plan) fit(room int) {
	full := false
	for _, e := range p.sorted(func(a, b *element) int {
		if a.Truncatable == b.Truncatable {
			return b.Priority - a.Priority
		}
		if a.Truncatable {
			return 1
		}
		return -1
	}) {
		switch need := e.weighed(); {
		case full && e.Truncatable:
			e.leaveOut(ExcludedBelowCut, "lower priority than what was cut")
		case need <= room:
			e.take(Included, e.whole())
			room -= need
		case e.Truncatable:
			full = true
			e.cutTo(room)
		default:
			e.leaveOut(ExcludedBudget, lacking(need, room))
		}
	}
	if full || len(p.sources.blocks) == 0 {
		return
	}
	if e := &p.elements[len(p.elements)-1]; e.entry.Inclusion == Included {
		if t := p.sources.addNeighbours(room); t.parts != nil {
			e.take(Included, t)
			e.entry.Demand, e.entry.TotalTokens = t.tokens, t.tokens
		}
	}
}

// sorted returns the elements in the given order. The result is valid until the next call.
func (p *plan) sorted(order func(a, b *element) int) []*element {
	p.ordered = p.ordered[:0]
	for i := range p.elements {
		p.ordered = append(p.ordered, &p.elements[i])
	}
	if order != nil {
		slices.SortStableFunc(p.ordered, order)
	}
	return p.ordered
}

// compose renders the selected elements into one insertion per place.
func (p *plan) compose() {
	for i := range p.places {
		p.insertions[i].parts = p.insertions[i].parts[:0]
	}
	block := &p.insertions[0]
	before, behind := p.fixed.before, p.fixed.behind
	if p.rulesInTemplate() {
		before, behind = p.fixed.withRules[0], p.fixed.withRules[1]
	}
	block.parts = append(block.parts, before)
	if p.fixed.rules.text != "" {
		block.parts = append(block.parts, p.fixed.rules)
	}
	for _, e := range p.inOrder() {
		at := &p.insertions[e.place]
		at.parts = append(at.parts, e.parts...)
	}
	if len(block.parts) == 1 && !p.rulesAlone() {
		block.parts = block.parts[:0] // the template would be empty
	} else {
		block.parts = append(block.parts, behind)
	}
	for i := range p.places {
		if at := &p.insertions[i]; len(at.parts) > 0 {
			at.lead, at.trail = around(at.Frame, at.parts)
		}
	}
}

// weigh counts the insertions together with the application's text on both sides. It returns
// false if there are none.
func (p *plan) weigh() (adds bool) {
	p.used, p.exact = 0, p.allExact
	for i := range p.places {
		at := &p.insertions[i]
		if len(at.parts) == 0 {
			continue
		}
		adds = true
		n, exact := at.weigh(p.counter)
		if at.Added {
			n += tokens.MessageOverhead
		}
		p.used += n
		p.exact = p.exact && exact
	}
	p.used = p.model.Billed(p.used)
	return adds
}

// rulesInTemplate reports whether the template's {{RULES}} is filled: because there are sources,
// or because the rules are added without any.
func (p *plan) rulesInTemplate() bool {
	if p.fixed.ruleTokens == 0 {
		return false
	}
	sources := len(p.sources.blocks) > 0 && p.elements[len(p.elements)-1].entry.Inclusion != Excluded
	return sources || p.rulesAlone()
}

// rulesAlone reports whether rules are added even without sources, as under PlaceSplit.
func (p *plan) rulesAlone() bool {
	return p.fixed.rules.text != "" || p.fixed.rulesInBlock && p.fixed.ruleTokens > 0
}

// weigh counts the tokens by which the application's text grows.
func (i *insertion) weigh(c retrieval.Counter) (n int, exact bool) {
	if i.apart {
		exact = true
		for k := range i.parts {
			more, known := c.Count(i.parts[k].text)
			n, exact = n+more, exact && known
		}
		return n, exact
	}
	if i.After != "" {
		return tokens.Between(c, i.Before, i.lead+joined(i.parts)+i.trail, i.After)
	}
	g := tokens.Growing(c, i.Before)
	g.Add(i.lead, 0)
	for k := range i.parts {
		g.Add(i.parts[k].text, i.parts[k].known())
	}
	g.Add(i.trail, 0)
	return g.End()
}

// json returns the inserted text as part of a JSON string.
func (i *insertion) json() EditText {
	text := append(make(EditText, 0, len(i.parts)+2), i.Begin(i.lead))
	for k := range i.parts {
		if p := &i.parts[k]; p.text != "" {
			text = append(text, p.inJSON())
		}
	}
	return append(text, i.End(i.trail))
}

func joined(parts []part) string {
	var all strings.Builder
	for i := range parts {
		all.WriteString(parts[i].text)
	}
	return all.String()
}

// inOrder returns the elements in prompt order. The result is valid until it or sorted is called
// again.
func (p *plan) inOrder() []*element {
	if p.policy.Order == OrderDeclared {
		return p.sorted(nil)
	}
	ordered := p.sorted(func(a, b *element) int { return b.Priority - a.Priority })
	if p.policy.Order != OrderEdges {
		return ordered
	}
	return atEdges(ordered)
}

// result runs the plan and stores its result in out.
func (p *plan) result(out *fitResult) {
	in := p.assemble()
	s := &p.sources
	*out = fitResult{components: make([]ComponentEntry, len(p.elements)), sources: s.inPromptOrder(), exact: p.exact, requestSpecific: s.skippedPresent}
	demand := 0
	for i := range p.elements {
		out.components[i] = p.elements[i].entry
		demand += p.elements[i].entry.Demand
	}
	if demand > 0 || p.rulesAlone() {
		demand += p.around()
	}
	out.overflow = max(0, p.model.Billed(demand)-p.budget)
	if texts := s.neighbourTexts; len(texts) > 0 {
		out.neighbours = newTexts(len(texts), func(i int) string { return texts[i] })
	}
	if !in {
		return
	}
	out.adds = true
	for i := range p.places {
		if len(p.insertions[i].parts) > 0 {
			out.insertions[i] = p.insertions[i].json()
		}
	}
	out.used, out.rules = p.used, p.fixed.rules.tokens
	if p.rulesInTemplate() {
		out.rules += p.fixed.ruleTokens
	}
	for i := range p.elements {
		out.rules += p.elements[i].rules
		out.text += p.elements[i].text
	}
	for i := range s.ledger {
		if s.ledger[i].Inclusion != Excluded {
			out.selected++
		}
	}
}

// placement returns the effective placement: the one wanted if the request and the model allow it,
// else another one. It is "" if there is no place at all.
func placement(r *chat.Request, p *Policy, want Placement, m *model.Model, last int) Placement {
	switch {
	case m.NoSystem && r.Empty: // in a message of its own
		return PlaceLastUser
	case m.NoSystem && last < 0:
		return ""
	case m.NoSystem:
		return PlaceLastUser
	case r.KeepsSystem():
		if last < 0 {
			return ""
		}
		return PlaceLastUser
	case sparesInput(r, p):
		if all := r.Markers(); want == PlaceMarker && len(all) > 0 && r.InInstructions(all[0]) {
			return want
		}
		return PlaceInstructions
	case last >= 0 && (want == PlaceLastUser || want == PlaceSplit):
		return want
	case want == PlaceMarker && len(r.Markers()) > 0:
		return want
	}
	return PlaceSystem
}

// sparesInput reports whether nothing may be added to the input of a request.
func sparesInput(r *chat.Request, p *Policy) bool {
	switch {
	case r.API != chat.Responses || p.History == HistoryInput:
		return false
	case p.History == HistoryInstructions:
		return true
	}
	return r.History.Keeps() || r.History.Continued()
}

// maxPlaces is the maximum number of places where a rewrite inserts text.
const maxPlaces = 2

// places are where text is inserted: the block's place and, under PlaceSplit, that of the sources
// after it.
type places struct {
	at [maxPlaces]chat.Place
	n  int
}

// findPlaces finds the places for the effective placement.
func (j *job) findPlaces() {
	r, at := j.req, &j.places.at
	j.places.n = 1
	switch {
	case j.cites && j.searchResults:
		at[0], at[1], j.places.n = j.rulesPlace(), r.BlocksAfter(j.last), 2
		return
	case j.cites:
		at[0], at[1], j.places.n = j.rulesPlace(), j.endOf(j.last), 2
		return
	}
	switch j.placement {
	case PlaceLastUser:
		if j.last < 0 {
			at[0] = r.First("user")
		} else {
			at[0] = j.endOf(j.last)
		}
	case PlaceSplit:
		at[0], at[1], j.places.n = r.System(), j.endOf(j.last), 2
	case PlaceInstructions:
		at[0] = r.Instructions()
	case PlaceMarker:
		at[0] = r.AtMarker(r.Markers()[0])
	default:
		if at[0] = r.System(); j.mark.state == MarkSet {
			at[0] = j.endOf(j.mark.message)
		}
	}
}

// rulesPlace returns the place of the rules for search results.
func (j *job) rulesPlace() chat.Place {
	if all := j.req.Markers(); j.policy.Placement == PlaceMarker && len(all) > 0 {
		return j.req.AtMarker(all[0])
	}
	return j.req.System()
}

// around returns the line feeds to put between the block and the application's text: two on each
// side, minus those that are already there.
func around(at chat.Frame, parts []part) (lead, trail string) {
	end := ""
	if at.After != "" {
		end = joined(parts)
	}
	behind := feedsAt(end, strings.TrimRight(end, "\n")) + feedsAt(at.After, strings.TrimLeft(at.After, "\n"))
	return feeds(at.Before, feedsAt(at.Before, strings.TrimRight(at.Before, "\n"))), feeds(at.After, behind)
}

func feedsAt(text, trimmed string) int { return len(text) - len(trimmed) }

func feeds(neighbour string, have int) string {
	if neighbour == "" {
		return ""
	}
	return "\n\n"[min(have, 2):]
}

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
			under := s.block(b.source, s.firstID+at+1)
			b.head, b.result = under.head, under.result
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
		s.ledger[i].ID, s.ledger[i].Tokens = s.firstID+at+1, blocks[at].tokens
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
