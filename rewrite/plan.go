package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/present"
	"sidenote/rewrite/tokens"
)

// A plan fits elements into the budget, renders them at their places and counts the
// result next to the application's texts.
type plan struct {
	meter
	policy     Policy
	model      Model
	rules      string      // the fixed sentences where they stand in the block on their own
	query      string      // the question, neutralised; "" if the template has no {{QUERY}}
	elements   []*element  // as declared
	sources    *sourceList // the content of the last element, if there are sources or a notice; else empty
	insertions []insertion // parallel to the job's places

	budget, used int
	exact        bool
}

// An insertion is a text at its place, in parts whose counts are known; nil for nothing.
type insertion struct {
	chat.Place
	parts []string
}

// newPlan makes the elements of the policy's components and of the sources, or of the
// notice that there are none.
func (j *job) newPlan(m *memo, sources []retrieval.Source, notice bool) *plan {
	p := &plan{
		meter:  meter{counter: j.model.Counter, known: j.model.Counter, allExact: true},
		policy: j.policy, model: j.model, query: j.safeQuery(), insertions: make([]insertion, j.places.n), budget: j.budget(),
	}
	p.meter.policy, p.sources = &p.policy, &sourceList{ledger: []SourceEntry{}}
	for i := range p.insertions {
		p.insertions[i].Place = j.places.at[i]
	}
	for _, c := range j.policy.Components {
		c.Text = safeBody(c.Text, &p.policy)
		p.elements = append(p.elements, &element{Component: c, content: &namedText{meter: &p.meter, name: c.Name, text: c.Text}})
	}
	fixed := rules(&p.policy, j.req.TextFormat, j.rulesInBlock)
	if j.rulesInBlock {
		p.rules, fixed = fixed, ""
	}
	if len(sources) > 0 || notice {
		if notice {
			fixed = noticeEmpty
		}
		p.sources = newSourceList(&p.meter, renderings{m, j.policy.Digest, j.model.Encoding}, sources, j.presence, fixed, closing(&p.policy, j.req.TextFormat))
		p.sources.beside = j.beside
		e := &element{Component: j.policy.Sources, content: p.sources, place: j.places.n - 1}
		e.Name = SourcesName
		p.elements = append(p.elements, e)
	}
	return p
}

// assemble fits the elements, renders them in place and counts the result exactly. If the
// tokens at the joins made it too large, it fits again into less room. It returns false
// if nothing fits.
func (p *plan) assemble() bool {
	for room := p.model.counted(p.budget) - p.fixed(); room > 0; room -= max(1, p.used-p.budget) {
		if adds := p.into(room); !adds || p.used <= p.budget {
			return adds
		}
	}
	return p.into(0) && p.used <= p.budget // rules that stand on their own may still fit
}

// into chooses what goes into room tokens, renders it and counts it. It returns false if
// nothing does.
func (p *plan) into(room int) (adds bool) {
	p.fit(room)
	p.compose()
	return p.weigh()
}

// fixed estimates the tokens around the elements: the template's text, the message if
// one is added, and rules that stand on their own.
func (p *plan) fixed() int {
	n := p.count(strings.Join(p.policy.Template.Fill(nil, p.query), "")) + p.count(p.rules)
	if p.insertions[0].Added {
		n += tokens.MessageOverhead
	}
	return n
}

// fit chooses what goes into room tokens, highest priority first. Elements that may not
// be cut go in whole or not at all, before all others. Of the others, the first that
// does not fit is cut, and those after it are left out. Neighbours fill the rest.
func (p *plan) fit(room int) {
	order := slices.Clone(p.elements)
	slices.SortStableFunc(order, func(a, b *element) int {
		if a.Truncatable == b.Truncatable {
			return b.Priority - a.Priority
		}
		if a.Truncatable {
			return 1
		}
		return -1
	})
	full := false
	for _, e := range order {
		room -= e.fit(room)
		switch {
		case !e.Truncatable:
		case full:
			e.leaveOut(ExcludedBelowCut, "below the first that was cut")
		case e.entry.Fate == Out:
			full = true
			if t := e.cut(room); t.parts != nil {
				e.take(Cut, t)
				e.entry.Reason, e.entry.Detail = ExcludedBudget, detailCut
			}
		}
	}
	if full || len(p.sources.blocks) == 0 {
		return
	}
	if e := p.elements[len(p.elements)-1]; e.entry.Fate == In {
		if t := p.sources.addNeighbours(room); t.parts != nil {
			e.take(In, t)
			e.entry.Demand, e.entry.TotalTokens = t.tokens, t.tokens
		}
	}
}

// compose renders what was chosen into one text for each place.
func (p *plan) compose() {
	for i := range p.insertions {
		p.insertions[i].parts = nil
	}
	block := &p.insertions[0]
	if p.rules != "" {
		block.parts = []string{p.rules}
	}
	for _, e := range inOrder(p.elements, p.policy.Order) {
		at := &p.insertions[e.place]
		at.parts = append(at.parts, e.parts...)
	}
	if len(block.parts) > 0 {
		block.parts = p.policy.Template.Fill(block.parts, p.query)
	}
	for i := range p.insertions {
		if at := &p.insertions[i]; len(at.parts) > 0 {
			lead, trail := around(at.Frame, at.parts)
			at.parts = slices.Concat([]string{lead}, at.parts, []string{trail})
		}
	}
}

// weigh counts the insertions together with the application's text on both sides. It
// returns false if there are none.
func (p *plan) weigh() (adds bool) {
	p.used, p.exact = 0, p.allExact
	for _, i := range p.insertions {
		if len(i.parts) == 0 {
			continue
		}
		adds = true
		n, exact := 0, false
		if i.After != "" {
			n, exact = tokens.Between(p.known, i.Before, strings.Join(i.parts, ""), i.After)
		} else {
			n, exact = tokens.Delta(p.known, i.Before, i.parts...)
		}
		if i.Added {
			n += tokens.MessageOverhead
		}
		p.used += n
		p.exact = p.exact && exact
	}
	p.used = p.model.billed(p.used)
	return adds
}

// inOrder returns the elements in their order in the prompt.
func inOrder(elements []*element, o Order) []*element {
	if o == OrderDeclared {
		return elements
	}
	ordered := slices.Clone(elements)
	slices.SortStableFunc(ordered, func(a, b *element) int { return b.Priority - a.Priority })
	if o != OrderEdges {
		return ordered
	}
	return atEdges(ordered)
}

// result makes the plan and returns what came of it.
func (p *plan) result() *fitResult {
	in := p.assemble()
	s := p.sources
	out := &fitResult{components: make([]ComponentEntry, len(p.elements)), sources: s.inPromptOrder(), bases: map[string]int{}, exact: p.exact, requestSpecific: s.skippedPresent}
	demand := 0
	for i, e := range p.elements {
		out.components[i] = e.entry
		demand += e.entry.Demand
	}
	if demand > 0 || p.rules != "" {
		demand += p.fixed()
	}
	out.overflow = max(0, p.model.billed(demand)-p.budget)
	if texts := s.neighbourTexts; len(texts) > 0 {
		out.neighbours = present.New(len(texts), func(i int) string { return texts[i] })
	}
	if !in {
		return out
	}
	out.adds = true
	for i, at := range p.insertions {
		if len(at.parts) > 0 {
			out.insertions[i] = at.JSON(at.parts)
		}
	}
	out.used, out.rules = p.used, p.count(p.rules)
	for _, e := range p.elements {
		out.rules += e.rules
		out.text += e.text
	}
	for _, e := range s.ledger {
		if e.Fate != Out {
			out.selected++
			out.bases[cmp.Or(string(e.Arm), e.Knowledge)]++
		}
	}
	return out
}
