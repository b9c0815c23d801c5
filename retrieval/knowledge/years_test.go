package knowledge_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
)

// A year tells versions apart, but does not make them answers to a question about something else.
func TestYearAlone(t *testing.T) {
	var documents []chunk.Document
	for i, year := range []int{2014, 2019, 2024} {
		documents = append(documents, chunk.Document{
			ID:   fmt.Sprintf("leave-%d.md", year),
			Text: fmt.Sprintf("# Parental leave %d\n\nEmployees with a new child are entitled to %d weeks of paid parental leave from January %d. Tell your manager eight weeks before it starts.", year, 8+2*i, year),
		})
	}
	for _, others := range []int{0, 4, 20} {
		for i := range others {
			documents = append(documents, chunk.Document{ID: fmt.Sprintf("desk%d.md", i), Text: fmt.Sprintf("# Desk %c\n\nThe office team keeps the rules for this desk; ask them about chairs and lamps.", 'a'+i)})
		}
		c, _, err := knowledge.FromDocuments(t.Context(), documents, deps())
		if err != nil {
			t.Fatal(err)
		}
		base := knowledge.New("kb")
		base.Swap(c)
		for question, want := range map[string]string{
			"port 80 in 2014?":                "",
			"who won the world cup in 2014?":  "",
			"what was the leave in 2019":      "leave-2019.md",
			"parental leave 2014":             "leave-2014.md",
			"2014?":                           "leave-2014.md",
			"how many weeks of leave in 2024": "leave-2024.md",
		} {
			got := answers(t, base, question)
			if want == "" && got != "" || !strings.HasPrefix(got, want) {
				t.Errorf("beside %d others, %s: %s, want %s", others, question, got, want)
			}
		}
		documents = documents[:3]
	}
}
