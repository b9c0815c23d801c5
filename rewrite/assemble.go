package rewrite

import (
	"slices"
	"sort"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// An assembly fits components into the budget, renders them and counts the result next
// to the application's texts.
type assembly struct {
	policy       Policy
	model        Model
	rules        string     // the fixed sentences, also where they will not be used
	rulesInBlock bool       // the rules go into the block on their own, not into the sources element
	query        string     // the question, neutralised; "" if the template has no {{QUERY}}
	block        chat.Place // where the block goes
	source       chat.Place // where the sources go, under PlaceSplit
	split        bool

	fitter fitter
	pieces []piece

	budget, used int
	exact        bool
}

// A piece is one text at its place, in parts whose counts are known.
type piece struct {
	at        chat.Place
	isSources bool // at the place of the sources, not of the block
	parts     []string
}

// newAssembly sets up the slots for the policy's components and for the sources, or for
// the notice that there are none.
func (j *job) newAssembly(sources []retrieval.Source, notice bool) *assembly {
	a := &assembly{
		policy: j.policy, model: j.model, rules: rules(j.policy, j.req.TextFormat, j.rulesInBlock), rulesInBlock: j.rulesInBlock, query: j.safeQuery(),
		block: j.block, source: j.sources, split: j.placement == PlaceSplit, budget: j.budget(), exact: true,
	}
	f := &a.fitter
	f.policy, f.counter, f.found, f.presence = j.policy, j.model.Counter, sources, j.presence
	f.closing = closing(&j.policy, j.req.TextFormat)
	for _, c := range j.policy.Components {
		c.Text = safeBody(c.Text, j.policy)
		f.slots = append(f.slots, slot{Component: c})
	}
	if len(sources) > 0 || notice {
		c := j.policy.Sources
		c.Name = SourcesName
		f.slots = append(f.slots, slot{Component: c, isSources: true})
		switch {
		case notice:
			f.rules = noticeEmpty
		case !a.rulesInBlock:
			f.rules = a.rules
		}
	}
	f.weigh()
	return a
}

// assemble fits the components, renders them in place and counts the result exactly. If
// the tokens at the joins made it too large, it fits again into less room. It returns
// false if nothing fits.
func (a *assembly) assemble() bool {
	for room := a.model.counted(a.budget) - a.fixed(); room > 0; room -= max(1, a.used-a.budget) {
		if a.fit(room); len(a.pieces) == 0 || a.used <= a.budget {
			return len(a.pieces) > 0
		}
	}
	a.fit(0) // rules that stand on their own may still fit
	return len(a.pieces) > 0 && a.used <= a.budget
}

// fit chooses what goes into room tokens, renders it and counts it.
func (a *assembly) fit(room int) {
	a.fitter.fit(room)
	a.compose()
	a.weigh()
}

// fixed estimates the tokens around the components: the template's text, the message if
// one is added, and rules that stand on their own.
func (a *assembly) fixed() int {
	n := 0
	if a.block.Added {
		n += tokens.MessageOverhead
	}
	n += a.fitter.count(strings.Join(a.policy.Template.fill(nil, a.query), ""))
	if a.rulesInBlock {
		n += a.fitter.count(a.rules)
	}
	return n
}

// compose renders what was chosen into one text for each place.
func (a *assembly) compose() {
	a.pieces = nil
	var context, sources []string
	for _, s := range inOrder(a.fitter.slots, a.policy.Order) {
		if s.isSources && a.split {
			sources = s.parts
			continue
		}
		context = append(context, s.parts...)
	}
	if a.rulesInBlock {
		context = append([]string{a.rules}, context...)
	}
	if len(context) > 0 {
		a.place(a.block, false, a.policy.Template.fill(context, a.query))
	}
	if len(sources) > 0 {
		a.place(a.source, true, sources)
	}
}

// place adds a piece, with the line feeds that separate it from the application's text.
func (a *assembly) place(at chat.Place, isSources bool, parts []string) {
	lead, trail := around(at.Frame, parts)
	if lead != "" {
		parts = append([]string{lead}, parts...)
	}
	if trail != "" {
		parts = append(parts, trail)
	}
	a.pieces = append(a.pieces, piece{at, isSources, parts})
}

// weigh counts the pieces together with the application's text on both sides.
func (a *assembly) weigh() {
	a.used, a.exact = 0, a.fitter.exact
	for i := range a.pieces {
		p := &a.pieces[i]
		n, exact := 0, false
		if p.at.After != "" {
			n, exact = tokens.Between(a.fitter.known, p.at.Before, strings.Join(p.parts, ""), p.at.After)
		} else {
			n, exact = tokens.Delta(a.fitter.known, p.at.Before, p.parts...)
		}
		if p.at.Added {
			n += tokens.MessageOverhead
		}
		a.used += n
		a.exact = a.exact && exact
	}
	a.used = a.model.billed(a.used)
}

// inOrder returns the slots in their order in the prompt.
func inOrder(slots []slot, o Order) []slot {
	ordered := slices.Clone(slots)
	if o == OrderDeclared {
		return ordered
	}
	sort.SliceStable(ordered, func(i, j int) bool { return ordered[i].Priority > ordered[j].Priority })
	if o != OrderEdges {
		return ordered
	}
	edges := make([]slot, len(ordered))
	front, back := 0, len(ordered)-1
	for i, s := range ordered {
		if i%2 == 0 {
			edges[front] = s
			front++
		} else {
			edges[back] = s
			back--
		}
	}
	return edges
}
