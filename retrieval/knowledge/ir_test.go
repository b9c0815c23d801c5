package knowledge_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// A collection is a test collection that lies beside the repository.
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
	var documents []document.Document
	for _, d := range c.Documents {
		documents = append(documents, document.Document{ID: d.ID, Name: d.Title, Text: d.Text})
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
	res, err := b.Retrieve(t.Context(), retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()})
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

// The ranking is as good as it was when it was last looked at.
func TestRanking(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of questions")
	}
	for name, want := range map[string]float64{"scifact": .702, "cranfield": .389, "drcd": .953} {
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

// The floor keeps what answers and turns away questions about something else.
func TestFloor(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of questions")
	}
	for _, tc := range []struct {
		base, others   string
		kept, rejected float64 // at least, of relevant hits and of the others' questions
	}{
		{"scifact", "cranfield", .98, .70},
		{"cranfield", "scifact", .98, .98},
		{"drcd", "scifact", .98, .98},
	} {
		t.Run(tc.base, func(t *testing.T) {
			c := readCollection(t, tc.base)
			b := c.base(t)
			hits, kept := 0, 0
			for _, q := range c.Queries {
				res := ask(t, b, q.Text)
				for _, s := range topDocuments(res.Sources) {
					if c.Grades[q.ID][s.Doc] > 0 {
						hits++
						if s.Score >= res.Floor {
							kept++
						}
					}
				}
			}
			others, rejected := readCollection(t, tc.others).Queries, 0
			for _, q := range others {
				if res := ask(t, b, q.Text); len(res.Sources) == 0 || res.Sources[0].Score < res.Floor {
					rejected++
				}
			}
			gotKept, gotRejected := float64(kept)/float64(hits), float64(rejected)/float64(len(others))
			t.Logf("kept %.3f of relevant hits, rejected %.3f of questions about %s", gotKept, gotRejected, tc.others)
			if gotKept < tc.kept || gotRejected < tc.rejected {
				t.Errorf("kept %.3f, rejected %.3f; want %.3f and %.3f", gotKept, gotRejected, tc.kept, tc.rejected)
			}
		})
	}
}
