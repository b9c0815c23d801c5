package knowledge_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// A collection is a test collection stored beside the repository.
type collection struct{ *eval.Collection }

func readCollection(t *testing.T, name string) collection {
	t.Helper()
	dir := filepath.Join("../../../shared/ir", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test collection: %v", err)
	}
	c, err := eval.Read(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return collection{c}
}

func (c collection) base(t *testing.T) *knowledge.Base {
	t.Helper()
	var documents []chunk.Document
	for _, d := range c.Documents {
		documents = append(documents, chunk.Document{ID: d.ID, Name: d.Title, Text: d.Text})
	}
	content, _, err := knowledge.FromDocuments(t.Context(), documents, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("test")
	b.Swap(content)
	return b
}

func ask(t *testing.T, b *knowledge.Base, question string) retrieval.Result {
	t.Helper()
	res, err := retrieval.WithTexts{Next: b}.Retrieve(t.Context(), retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// topDocuments returns the best source of each of the ten best documents.
func topDocuments(sources []retrieval.Source) []retrieval.Source {
	ranked := eval.Rank(sources)
	return ranked[:min(10, len(ranked))]
}

// The ranking is at least as good as recorded.
func TestRanking(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of questions")
	}
	for name, want := range map[string]float64{"scifact": .710, "cranfield": .409, "drcd": .953} {
		t.Run(name, func(t *testing.T) {
			c := readCollection(t, name)
			b := c.base(t)
			sum := 0.0
			for _, q := range c.Queries {
				var ranking []string
				for _, s := range topDocuments(ask(t, b, q.Text).Sources) {
					ranking = append(ranking, s.Doc)
				}
				sum += c.Grades[q.ID].NDCG(ranking, 10)
			}
			if got := sum / float64(len(c.Queries)); math.Abs(got-want) > .002 {
				t.Errorf("nDCG@10 %.4f, recorded %.3f", got, want)
			}
		})
	}
}
