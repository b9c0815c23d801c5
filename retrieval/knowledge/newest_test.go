package knowledge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
)

// Of more versions than a search finds, all of which score alike, the newest becomes a source; of
// those that the caller may see.
func TestNewestOfMany(t *testing.T) {
	const versions = 10_000
	var documents []chunk.Document
	for i := range versions {
		documents = append(documents, chunk.Document{
			ID:         fmt.Sprintf("hr/minutes-v%d.md", i+1),
			Text:       fmt.Sprintf("# Minutes\n\nThe board of the association meets in the hall, and %d members were present. The budget of the summer party was accepted.", i),
			Attributes: map[string]any{"public": i%2 == 0},
		})
	}
	for i := range 20 {
		documents = append(documents, chunk.Document{ID: fmt.Sprintf("other%d.md", i), Text: "# Other\n\nThe office lends chairs and tables of the kitchen to colleagues number " + strings.Repeat("x", i%9+3)})
	}
	c, _, err := knowledge.FromDocuments(t.Context(), documents, deps())
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New("kb")
	base.Swap(c)
	pipeline := &retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return base }, Terms: new(analysis.Recent).Terms}
	for _, of := range []struct {
		question string
		filter   *filter.Filter
		want     string
	}{
		{"Who accepted the budget of the summer party?", nil, "hr/minutes-v10000.md"},
		{"Who accepted the budget of the summer party?", &filter.Filter{Type: filter.Eq, Key: "public", Value: true}, "hr/minutes-v9999.md"},
		{"What was the budget of the summer party in minutes v77?", nil, "hr/minutes-v77.md"},
		{"Has the budget of the summer party changed?", nil, "hr/minutes-v10000.md"},
	} {
		q := retrieval.Query{Text: of.question, Filter: of.filter, Bases: []retrieval.Ref{{Knowledge: "kb"}}, Settings: retrieval.DefaultSettings()}
		q.Settings.Deadline = time.Minute
		c.ReadVersions() // a search does not wait for them
		res, err := pipeline.Retrieve(t.Context(), q)
		if err != nil || len(res.Sources) == 0 || res.Sources[0].Doc != of.want || res.Retrieved > q.Settings.NumCandidates {
			var got []string
			for _, s := range res.Sources {
				got = append(got, s.Doc)
			}
			t.Errorf("%s: %v of %d, want %s first (%v)", of.question, got, res.Retrieved, of.want, err)
		}
	}
}
