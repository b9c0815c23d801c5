package knowledge_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkFromDocuments is reading without the disk and with a cheap counter:
// parse, cut, index, calibrate.
func BenchmarkFromDocuments(b *testing.B) {
	docs := make([]document.Document, 1000)
	bytes := 0
	for i := range docs {
		var text strings.Builder
		fmt.Fprintf(&text, "# Document %d\n\n", i)
		for s := range 8 {
			fmt.Fprintf(&text, "## Section %d\n\n", s)
			for w := range 25 {
				fmt.Fprintf(&text, "Sentence w%d has terms t%d and u%d in it. ", w*i, s*w, i*s+w)
			}
			text.WriteString("\n\n")
		}
		docs[i] = document.Document{ID: fmt.Sprint(i), Text: text.String(), Markdown: true}
		bytes += text.Len()
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	chunks := 0
	for b.Loop() {
		c, _, err := knowledge.FromDocuments(b.Context(), docs, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
		if err != nil {
			b.Fatal(err)
		}
		chunks = c.Chunks()
	}
	b.ReportMetric(float64(chunks*b.N)/b.Elapsed().Seconds(), "chunks/s")
}

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
