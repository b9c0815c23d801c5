package knowledge_test

import (
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// notes returns a base with a document per text.
func notes(t *testing.T, texts ...string) *knowledge.Base {
	t.Helper()
	var documents []chunk.Document
	for i, text := range texts {
		documents = append(documents, chunk.Document{ID: string(rune('a' + i)), Name: "Note", Text: text})
	}
	content, _, err := knowledge.FromDocuments(t.Context(), documents, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("notes")
	b.Swap(content)
	return b
}

// answers returns the documents above the floor, best first.
func answers(t *testing.T, b *knowledge.Base, question string) string {
	t.Helper()
	res := ask(t, b, question)
	above := slices.DeleteFunc(res.Sources, func(s retrieval.Source) bool { return s.Score < res.Floor })
	var ids []string
	for _, s := range above {
		ids = append(ids, s.Doc)
	}
	return strings.Join(ids, " ")
}

// Letters with a number are found however they are joined; another number is not found.
func TestSpellingsOfCodes(t *testing.T) {
	b := notes(t,
		"Ticket INC-77120: the gate of the car park does not open for visitors.",
		"Audits follow EN 45545 for everything that is built into rail cars.",
		"The copier shows SC542 if its fuser is too hot. Let it cool down.",
		"Spare belts have the order number BR-8821/4 and fit all older models.",
		"Windows stops with 0xC0000225 when a boot file is missing.",
		"Backups stop with ORA-19809 when the recovery area is full.",
		"Visitors get a badge at the reception and return it when they leave.",
		"The canteen opens at noon; the menu hangs beside the door.",
	)
	for question, want := range map[string]string{
		"INC77120":          "a",
		"inc 77120":         "a",
		"what is Inc-77120": "a",
		"EN45545":           "b",
		"en-45545":          "b",
		"SC 542":            "c",
		"sc-542":            "c",
		"BR8821/4":          "d",
		"br-8821":           "d",
		"C0000225":          "e",
		"error c0000225":    "e",
		"failed C0000225":   "e",
		"0XC0000225":        "e",
		"ora19809":          "f",
		"ORA 19809":         "f",
		"INC77121":          "",
		"inc 77121":         "",
		"EN 45546":          "",
		"en-50155":          "",
		"SC543":             "",
		"BR8822/4":          "",
		"0xC0000226":        "",
		"ora-19810":         "",
	} {
		if got := answers(t, b, question); got != want {
			t.Errorf("%q finds %q, want %q", question, got, want)
		}
	}
}

// A text with the spelling of the question ranks first.
func TestExactSpellingFirst(t *testing.T) {
	b := notes(t, "Order belt BR8821 for the older models.", "Order belt BR 8821 for the older models.", "Order belt BR-8821 for the older models.",
		"Visitors get a badge at the reception.", "The canteen opens at noon.")
	for question, first := range map[string]string{"BR-8821": "c", "belt BR-8821": "c"} {
		if got := answers(t, b, question); !strings.HasPrefix(got, first) || len(got) != 5 {
			t.Errorf("%q finds %q, want %s before the two others", question, got, first)
		}
	}
}
