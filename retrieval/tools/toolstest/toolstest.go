// Package toolstest sets up small knowledge bases for tests of tools, wired as for requests.
package toolstest

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/tools"
)

// Open returns a Knowledge of bases, wired as for requests, and the query of a caller who sees all
// documents except those for the board.
func Open(t testing.TB, bases map[string][]chunk.Document) (*tools.Knowledge, retrieval.Query) {
	t.Helper()
	all, err := filter.Parse([]byte(`{"type":"ne","key":"audience","value":"board"}`))
	if err != nil {
		t.Fatal(err)
	}
	as := retrieval.Query{Tenant: "t", Filter: all, Settings: retrieval.DefaultSettings()}
	as.Settings.Deadline = time.Minute // no test is about time
	made := map[string]*knowledge.Base{}
	for id, docs := range bases {
		content, _, err := knowledge.FromDocuments(t.Context(), docs, knowledge.Deps{Counter: knowledgetest.FourBytes{}, Version: "test", Neutralise: func(_, s string) string { return s }})
		if err != nil {
			t.Fatal(err)
		}
		made[id] = knowledge.New(id)
		made[id].Swap(content)
		as.Bases = append(as.Bases, retrieval.Ref{Knowledge: id})
	}
	group := &knowledge.Group{
		Base: func(id string) *knowledge.Base { return made[id] }, Wait: time.Minute,
		Start: func(f func(context.Context)) { f(context.Background()) },
	}
	pipeline := &retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return group }, Joint: func(string) string { return "all" }, Terms: analysis.Terms}
	prepare := &retrieval.Prepare{
		Next: pipeline, HasTerms: new(analysis.Recent).HasTerms,
		Ref: func(id string) (retrieval.Ref, bool) {
			if made[id] == nil {
				return retrieval.Ref{}, false
			}
			return made[id].Ref(), true
		},
		Join: func(string, iter.Seq[string]) []retrieval.Turn { return nil },
	}
	return &tools.Knowledge{Retriever: prepare, Reader: group, Terms: analysis.Terms}, as
}

// Staff returns the documents of knowledgetest.Handbook and two more, one of them for the board
// only.
func Staff() []chunk.Document {
	var docs []chunk.Document
	for id, text := range knowledgetest.Handbook() {
		docs = append(docs, chunk.Document{ID: id, Text: text, Markdown: true})
	}
	filler := func(about string, n int) string {
		return strings.Repeat("The "+about+" is looked after by the office and nobody else needs to care. ", n)
	}
	return append(docs,
		chunk.Document{ID: "secret.md", Text: "# Merger\n\nThe merger with Zephyr closes in May.", Markdown: true, Attributes: map[string]any{"audience": "board"}},
		chunk.Document{ID: "guide.md", Markdown: true, Text: "# Guide\n\n## Kitchen\n\n" + filler("kitchen", 30) + "The dishwasher runs at noon. " + filler("fridge", 30) +
			"\n\n## Garage\n\n" + filler("garage", 25) + "Tricycles need a badge called velocity. " + filler("gate", 25)},
	)
}
