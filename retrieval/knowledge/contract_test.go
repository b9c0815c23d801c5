package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/retrievaltest"
)

// embedded is a Base whose documents the suite may change.
type embedded struct{ *knowledge.Base }

func (b embedded) Change(t *testing.T, docs []retrievaltest.Document) {
	var list []chunk.Document
	for _, d := range docs {
		list = append(list, chunk.Document{ID: d.ID, Text: d.Text, Markdown: true, Attributes: d.Attributes})
	}
	c, _, err := knowledge.FromDocuments(t.Context(), list, deps())
	if err != nil {
		t.Fatal(err)
	}
	b.Swap(c)
}

func TestContract(t *testing.T) {
	retrievaltest.Run(t, func(t *testing.T, docs []retrievaltest.Document) retrieval.Base {
		b := embedded{knowledge.New("contract")}
		b.Change(t, docs)
		return b
	})
}
