package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/synonyms"
)

// Synonyms are found at a lower weight than the words of the question, and shown.
func TestSynonyms(t *testing.T) {
	texts := map[string]string{
		"a.md": "You get your money back within two weeks.", "b.md": "A refund takes two weeks for members.", "c.md": "The job runs every night at two.",
		"d.md": "Bikes are in the yard.", "e.md": "The canteen opens at noon.", "f.md": "Visitors get a badge.", "g.md": "Printers are on each floor.",
		"h.md": "Keys are at the desk.",
	}
	b := holding(t, "kb", texts)
	list, err := synonyms.Parse([]byte("refund, money back\ncron => every night\nbadge => canteen"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(question string, s *retrieval.Synonyms) (found []string) {
		q := retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()}
		q.Settings.Synonyms = s
		res, err := b.Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range res.Sources {
			if s.Score >= res.Floor {
				found = append(found, s.Doc)
			}
		}
		return found
	}
	for question, want := range map[string][2]string{ // without and with synonyms: the first
		"refund":        {"b.md", "b.md"},
		"money back":    {"a.md", "a.md"},
		"cron":          {"", "c.md"},
		"badge":         {"f.md", "f.md"},
		"canteen":       {"e.md", "e.md"},
		"when is lunch": {"", ""},
	} {
		for i, s := range []*retrieval.Synonyms{nil, list} {
			got := ""
			if found := ask(question, s); len(found) > 0 {
				got = found[0]
			}
			if got != want[i] {
				t.Errorf("%q finds %q first, want %q", question, got, want[i])
			}
		}
	}
	if got := ask("refund", list); len(got) != 2 {
		t.Errorf("refund finds %q, want money back too", got)
	}
	if got := ask("canteen", list); len(got) != 1 {
		t.Errorf("canteen finds %q, want one text: the rule has one direction", got)
	}
}
