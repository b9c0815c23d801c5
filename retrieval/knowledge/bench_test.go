package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkRetrieve is one question to a small base, sources and floor included.
func BenchmarkRetrieve(b *testing.B) {
	base := knowledge.New("handbook")
	base.Swap(build(b, knowledgetest.Handbook()))
	q := retrieval.Query{Text: "How many weeks of parental leave do I get?", Settings: retrieval.DefaultSettings()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := base.Retrieve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
