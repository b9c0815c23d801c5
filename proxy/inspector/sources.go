package inspector

import (
	"cmp"
	"slices"

	"sidenote/rewrite"
)

// A sourceView is a row of the list of sources.
type sourceView struct {
	rewrite.SourceEntry
	Anchor   bool     // citations link to it
	Address  string   // URL of its chunk; "" if there is none
	Document longText // its id
}

// sourceMarkup is the maximum size of the HTML of a row in bytes, without its texts.
const sourceMarkup = 900

// addSources adds the sources in prompt order, then those that are not in the prompt, then those
// from tools, and the bars.
func (view *requestView) addSources(r *room) {
	view.given = map[int]bool{}
	if l := view.Ledger; l != nil {
		sources := inPromptOrder(l.Sources)
		view.Budget, view.Window = budgetBar(l, sources), windowBar(l)
		if l.Repeated != nil {
			for _, e := range inPromptOrder(l.Repeated.Sources) {
				e.Detail = "given again, from an earlier turn"
				view.Sources = view.addSource(view.Sources, e, r)
			}
		}
		for _, e := range sources {
			view.Sources = view.addSource(view.Sources, e, r)
		}
	}
	if view.Tools == nil {
		return
	}
	for _, g := range view.Tools.Sources {
		e := rewrite.SourceEntry{ID: g.ID, Knowledge: g.Knowledge, Doc: g.Doc, Chunk: g.Chunk, Name: g.Name, Section: g.Section, Relevance: g.Relevance}
		view.Given = view.addSource(view.Given, e, r)
	}
}

// addSource adds a row for a source, if there is room.
func (view *requestView) addSource(rows []sourceView, e rewrite.SourceEntry, r *room) []sourceView {
	s := sourceView{SourceEntry: e, Document: cut(e.Doc, "")}
	if s.Document.More == 0 && e.Chunk >= 0 {
		s.Address = documentAddress(e.Knowledge, e.Doc, e.Chunk)
	}
	size := sourceMarkup + 3*len(s.Address)
	for _, text := range [...]string{e.Doc, e.Knowledge, e.Name, e.Section, e.Detail} {
		size += pageSize(cut(text, "").Text)
	}
	fits := r.take(size)
	if _, twice := view.given[e.ID]; e.ID > 0 && !twice {
		s.Anchor, view.given[e.ID] = fits, fits
	}
	if !fits {
		view.LeftOut++
		return rows
	}
	return append(rows, s)
}

// inPromptOrder returns the sources in the prompt sorted by id, then the others in the order of
// the ledger.
func inPromptOrder(sources []rewrite.SourceEntry) []rewrite.SourceEntry {
	sorted := slices.Clone(sources)
	slices.SortStableFunc(sorted, func(a, b rewrite.SourceEntry) int {
		if (a.ID > 0) != (b.ID > 0) {
			return cmp.Compare(b.ID, a.ID)
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return sorted
}
