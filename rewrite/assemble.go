package rewrite

import (
	"slices"
	"sort"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// A job is one rewrite under way.
type job struct {
	policy Policy
	req    *Request
	model  Model
	query  string
	last   int // index of the last user message, -1 without one

	present []retrieval.Source // found, but in the messages already
	fitter  fitter
	block   place // where the block goes
	sources place // where the sources go, under PlaceSplit
	split   bool
	pieces  []piece

	budget, used int
	exact        bool
}

// A piece is one text at its place, in parts whose counts are known.
type piece struct {
	at    place
	parts []string
}

// prepare sets up the components; it returns false where there is none.
func (j *job) prepare(sources []retrieval.Source, notice bool) bool {
	j.block, j.sources = j.req.places(j.policy, j.last)
	j.split = j.policy.Placement == PlaceSplit && j.block.offset != j.sources.offset
	j.budget = j.policy.ContextTokens
	if quarter := j.model.Window / 4; j.model.Window > 0 && quarter < j.budget {
		j.budget = quarter
	}
	f := &j.fitter
	f.policy, f.counter, f.found = j.policy, j.model.Counter, sources
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
		case !j.split:
			f.rules = rules(j.policy, j.req.formatIsText)
		}
	}
	f.weigh()
	return len(f.slots) > 0
}

// assemble fits the components, places them and counts the result exactly; where
// the seams made it too large it fits again into less. False: nothing fits.
func (j *job) assemble() bool {
	room := j.budget
	if j.model.Estimated {
		room = room * 10 / 11 // so that what fits still fits with its margin
	}
	room -= j.fixed()
	for room > 0 {
		j.fitter.fit(room)
		if j.compose(); len(j.pieces) == 0 {
			return false
		}
		if j.weigh(); j.used <= j.budget {
			return true
		}
		room -= max(1, j.used-j.budget)
	}
	j.pieces = nil
	j.fitter.fit(0)
	return false
}

// fixed is about what stands around the components: the template's own text.
func (j *job) fixed() int {
	n := 0
	if j.block.added {
		n += tokens.MessageOverhead
	}
	if j.policy.Template != "" {
		n += j.fitter.count(strings.Join(fillTemplate(j.policy.Template, nil, j.safeQuery()), ""))
	}
	if j.split {
		n += j.fitter.count(rules(j.policy, j.req.formatIsText))
	}
	return n
}

func (j *job) safeQuery() string {
	if !strings.Contains(j.policy.Template, "{{QUERY}}") {
		return ""
	}
	return safeBody(j.query, j.policy)
}

// compose renders what fits into one text a place.
func (j *job) compose() {
	j.pieces = nil
	var context, sources []string
	for _, s := range inOrder(j.fitter.slots, j.policy.Order) {
		if s.isSources && j.split {
			sources = s.parts
			continue
		}
		context = append(context, s.parts...)
	}
	if len(sources) > 0 && j.fitter.rules == "" {
		context = append([]string{rules(j.policy, j.req.formatIsText)}, context...)
	}
	if len(context) > 0 {
		j.place(j.block, fillTemplate(j.policy.Template, context, j.safeQuery()))
	}
	if len(sources) > 0 {
		j.place(j.sources, sources)
	}
}

// place adds a piece, with the line feeds that part it from the app's text.
func (j *job) place(at place, parts []string) {
	lead, trail := at.around(parts)
	if lead != "" {
		parts = append([]string{lead}, parts...)
	}
	if trail != "" {
		parts = append(parts, trail)
	}
	j.pieces = append(j.pieces, piece{at, parts})
}

// weigh counts the pieces as they will stand among the application's text.
func (j *job) weigh() {
	j.used, j.exact = 0, j.fitter.exact
	for i := range j.pieces {
		p := &j.pieces[i]
		n, exact := 0, false
		if p.at.after != "" {
			n, exact = tokens.Between(j.model.Counter, p.at.before, strings.Join(p.parts, ""), p.at.after)
		} else {
			n, exact = tokens.Delta(j.model.Counter, p.at.before, p.parts...)
		}
		if p.at.added {
			n += tokens.MessageOverhead
		}
		j.used += n
		j.exact = j.exact && exact
	}
	if j.model.Estimated {
		j.used = tokens.Estimate(j.used)
	}
}

// inOrder returns the slots as they stand in the prompt.
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

// edits returns the edits of the outcome, sorted.
func (j *job) edits(o Outcome) []Edit {
	strip := j.req.StripEdits(j.policy)
	if o != Injected {
		return strip
	}
	var edits []Edit
	for _, p := range j.pieces {
		edits = append(edits, p.at.edit(p.parts))
	}
	for _, e := range strip {
		if e.Offset != edits[0].Offset || e.Name != editMarker { // that marker is replaced, not removed
			edits = append(edits, e)
		}
	}
	return sorted(edits)
}

// account fills the ledger.
func (j *job) account(res *Result) {
	f := &j.fitter
	l := Ledger{
		Model: j.req.Model, Encoding: j.model.Encoding, Exactness: j.exactness(),
		Budget: j.budget, Notes: j.policy.Notes, AppTags: j.req.appTags(),
		TotalChunksRetrieved: res.Retrieval.Retrieved, UniqueChunksAfterDedup: res.Retrieval.Unique,
		ChunkSources: map[string]int{},
	}
	demand := 0
	for _, s := range f.slots {
		l.Components = append(l.Components, s.entry)
		demand += s.entry.Demand
	}
	l.Overflow = max(0, demand-j.budget)
	l.Sources = append(l.Sources, f.ledger...)
	for _, s := range j.present {
		l.Sources = append(l.Sources, outEntry(s, "stands in the messages already"))
	}
	for _, x := range res.Retrieval.Excluded {
		l.Sources = append(l.Sources, outEntry(x.Source, x.Detail))
	}
	if res.Outcome == Injected {
		l.Used, l.EstimatedTokens = j.used, j.used
		j.divide(&l)
	}
	for _, e := range res.Edits {
		l.Edits = append(l.Edits, EditEntry{e.Name, e.Offset, e.Delete, len(e.Insert)})
	}
	res.Ledger = l
}

func outEntry(s retrieval.Source, reason string) SourceEntry {
	e := newEntry(s)
	e.Fate, e.Reason = Out, reason
	return e
}

// divide tells what the used tokens are: rules, texts, and the rest.
func (j *job) divide(l *Ledger) {
	f := &j.fitter
	for _, s := range f.slots {
		l.Text += s.text
		switch {
		case s.parts == nil || !s.isSources:
		case f.rules == "":
			l.Rules += f.count(rules(j.policy, j.req.formatIsText))
		default:
			l.Rules += f.count(f.rules)
		}
	}
	for _, e := range l.Sources {
		if e.Fate == Out {
			continue
		}
		l.ChunksSelected++
		l.ChunkSources[e.Knowledge]++
		l.Text += f.blocks[e.ID-1].text
	}
	l.Tags = max(0, l.Used-l.Rules-l.Text)
}

func (j *job) exactness() Exactness {
	switch {
	case j.model.Estimated:
		return Estimated
	case j.exact:
		return Exact
	}
	return Bound
}
