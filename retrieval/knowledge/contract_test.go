package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/retrievaltest"
)

// embedded is a Base whose documents the suite may change.
type embedded struct{ *knowledge.Base }

func (b embedded) Change(t *testing.T, docs []retrievaltest.Document) {
	texts := map[string]string{}
	for _, d := range docs {
		texts[d.ID] = d.Text
	}
	b.Swap(build(t, texts))
}

func TestContract(t *testing.T) {
	retrievaltest.Run(t, func(t *testing.T, docs []retrievaltest.Document) retrieval.Base {
		b := embedded{knowledge.New("contract")}
		b.Change(t, docs)
		return b
	})
}
