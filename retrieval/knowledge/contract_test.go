package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/retrievaltest"
)

func TestContract(t *testing.T) {
	retrievaltest.Run(t, func(t *testing.T, docs []retrievaltest.Document) retrieval.Base {
		texts := map[string]string{}
		for _, d := range docs {
			texts[d.ID] = d.Text
		}
		b := knowledge.New("contract")
		b.Swap(build(t, texts))
		return b
	})
}
