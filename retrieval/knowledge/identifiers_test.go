package knowledge_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// A question with an identifier finds the text that contains it before all texts that contain its
// parts, however often.
func TestIdentifiersMatchWhole(t *testing.T) {
	f, err := os.Open("testdata/identifiers.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type question struct{ text, answer string }
	var questions []question
	var documents []chunk.Document
	kinds := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mark, text, _ := strings.Cut(lines.Text(), " ")
		id := fmt.Sprint(len(documents))
		switch mark {
		case "#":
			kinds++
		case "?":
			questions = append(questions, question{text: text})
		case "+":
			questions[len(questions)-1].answer = id
			fallthrough
		case "-":
			documents = append(documents, chunk.Document{ID: id, Name: "Note", Text: text})
		}
	}
	if len(questions) < 30 || kinds < 6 {
		t.Fatalf("%d questions of %d kinds", len(questions), kinds)
	}
	content, _, err := knowledge.FromDocuments(t.Context(), documents, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("notes")
	b.Swap(content)
	for _, q := range questions {
		res := ask(t, b, q.text)
		if len(res.Sources) == 0 || res.Sources[0].Doc != q.answer {
			for i, s := range res.Sources[:min(3, len(res.Sources))] {
				t.Errorf("%q: %d. %.2f %.90s", q.text, i+1, s.Score, s.Text)
			}
			continue
		}
		if res.Sources[0].Score < res.Floor {
			t.Errorf("%q: score %.2f below %.2f", q.text, res.Sources[0].Score, res.Floor)
		}
	}
}
