package rewrite

import (
	"fmt"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// An element is a component together with the state of its fit.
type element struct {
	Component
	content
	place int // index into plan.insertions
	selection
	entry ComponentEntry // for the ledger
}

// A content is the content of an element: a named text, or the sources. Token counts of contents
// can be added up, because they are whole lines that start with '<' (see tokens.Sum). The plan
// counts the joins to the application's text.
type content interface {
	// weigh counts the tokens of all of it.
	weigh() int
	// whole selects all of it, after weigh.
	whole() selection
	// cut selects what fits into room tokens and leaves out the rest. It returns no parts if
	// nothing fits.
	cut(room int) selection
	// leaveOut records that nothing of it is added.
	leaveOut(reason ExcludeReason, detail string)
}

// A taken is the part of an element that is added.
type selection struct {
	parts  []part // whole lines
	tokens int
	rules  int // of tokens: the fixed sentences
	text   int // of tokens: the texts of sources and components
}

// weighed resets the element's ledger entry and returns the tokens of all of it.
func (e *element) weighed() int {
	need := e.weigh()
	e.entry = ComponentEntry{Name: e.Name, Priority: e.Priority, Truncatable: e.Truncatable, Demand: need, TotalTokens: need}
	return need
}

// cutTo adds as much as fits into room of an element that does not fit whole.
func (e *element) cutTo(room int) {
	if t := e.cut(room); t.parts != nil {
		e.take(Cut, t)
		e.entry.Reason, e.entry.Detail = ExcludedBudget, detailCut
		return
	}
	e.take(Excluded, selection{})
	e.entry.Reason, e.entry.Detail = ExcludedBudget, lacking(e.entry.Demand, room)
}

// lacking returns the ledger's detail for an element that does not fit.
func lacking(need, room int) string { return fmt.Sprintf("needs %d tokens, %d left", need, room) }

func (e *element) take(fate Inclusion, t selection) {
	e.selection, e.entry.Inclusion, e.entry.Tokens = t, fate, t.tokens
}

func (e *element) leaveOut(reason ExcludeReason, detail string) {
	e.take(Excluded, selection{})
	e.entry.Reason, e.entry.Detail = reason, detail
	e.content.leaveOut(reason, detail)
}

// A meter counts and cuts the texts of a plan.
type meter struct {
	policy   *Policy
	counter  retrieval.Counter
	allExact bool // all counts so far were exact
}

func (m *meter) count(text string) int {
	n, exact := m.counter.Count(text)
	m.allExact = m.allExact && exact
	return n
}

// A namedText is the content of a component of the policy or the request.
type namedText struct {
	*meter
	name, text string // text is neutralised
	all        part   // the rendered component, set by weigh
}

func (t *namedText) weigh() int {
	t.all = t.part(t.policy.Component(t.name, t.text))
	return t.all.tokens
}

func (t *namedText) whole() selection { return t.taken(t.all) }

func (t *namedText) taken(p part) selection {
	return selection{parts: []part{p}, tokens: p.tokens, text: max(0, p.tokens-t.count(t.policy.Component(t.name, "")))}
}

func (t *namedText) cut(room int) selection {
	var short part
	text, _ := t.shorten(t.text, room, func(text string) int {
		short = t.part(t.policy.Component(t.name, text))
		return short.tokens
	})
	if text == "" {
		return selection{}
	}
	return t.taken(short)
}

func (t *namedText) leaveOut(ExcludeReason, string) {}

// cutMarker is appended to a text that was cut.
const cutMarker = " [… cut to fit]"

// shorten cuts text so that its cost is at most room, and appends cutMarker. It returns "" if
// less than the policy's MinTruncatedTokens would be left. A cut can turn code into what looks
// like a tag ("i<source.length" cut before the dot), so the result is neutralised again;
// EscapeAll needs no second pass.
func (m *meter) shorten(text string, room int, cost func(string) int) (string, int) {
	limit := room - cost(cutMarker)
	for limit >= m.policy.MinTruncatedTokens {
		short := strings.TrimRight(tokens.Cut(m.counter, text, limit), " \t\n")
		if short == "" {
			break
		}
		short, _ = m.policy.Template.Tags().Neutralise(short+cutMarker, false)
		n := cost(short)
		if n <= room {
			return short, n
		}
		limit -= n - room
	}
	return "", 0
}
