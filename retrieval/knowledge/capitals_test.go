package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// A question in capitals finds what its names stand for, and no document that merely contains the
// pronoun; in lower case it is searched by its other words.
func TestNamesInCapitalsAreFound(t *testing.T) {
	base := knowledge.New("kb")
	base.Swap(build(t, map[string]string{
		"it.md":      "# Laptops\n\nThe IT department repairs laptops. Ask IT when it is broken.",
		"who.md":     "# Vaccines\n\nVaccines are recommended by the WHO each autumn.",
		"us.md":      "# Travel\n\nBusiness travel to the US needs a visa.",
		"canteen.md": "# CANTEEN: TELL US WHO LIKES IT\n\nThe canteen serves lunch. Tell us who likes it, and what it is like.",
		"holiday.md": "# Holidays\n\nIt is up to us who may go when. Each department decides it.",
	}))
	f := func(question, want string) {
		t.Helper()
		res, err := base.Retrieve(t.Context(), retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()})
		got := ""
		if err == nil && len(res.Sources) > 0 {
			got = res.Sources[0].Doc
		}
		if got != want || (want == "") != (len(res.Sources) == 0) {
			t.Errorf("%q: %q of %d, want %q (%v)", question, got, len(res.Sources), want, err)
		}
	}
	f("Who do I tell in IT?", "it.md")
	f("Does the WHO have it?", "who.md")
	f("Can we do it in the US?", "us.md")
	f("it department laptop", "it.md")
	f("What is IT?", "it.md")
	f("IT", "it.md")
	f("WHO IS IT?", "") // nothing to search for, in capitals or not
	f("who is it?", "")
	f("It is us.", "")
}
