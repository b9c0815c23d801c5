package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// An identifier suffices whatever the language of the sentence around it; a follow-up needs terms
// of previous turns if no text contains its own words; and conversational words that may be the
// subject of a folder suffice, too.
func TestDemand(t *testing.T) {
	b := knowledge.New("docs")
	b.Swap(build(t, map[string]string{
		"moved.md":     "# Borrow of moved value\n\nError E0382 is given when a variable is used after it was moved.",
		"lifetimes.md": "# Lifetimes\n\nA reference must not outlive what it refers to.",
		"kitchen.md":   "# Kitchen\n\nLunch is served at noon. When it rains, the terrace is closed.",
		"urlaub.md":    "# Urlaub\n\nDie Elternzeit dauert bis zu drei Jahre.",
		"vpn.md":       "# VPN\n\nIf the VPN fails, restart it.",
	}))
	for _, c := range []struct{ question, before, want string }{
		{"E0382错误是什么", "", "moved.md"},
		{"E0382とは何ですか", "", "moved.md"},
		{"Что значит E0382?", "", "moved.md"},
		{"when is lunch", "", "kitchen.md"},
		{"Und für Adoptivkinder?", "Elternzeit", "urlaub.md"},
		{"thanks, that helped!", "", ""},
		{"tell me a joke", "", ""},
	} {
		q := retrieval.Query{Text: c.question, Settings: retrieval.DefaultSettings()}
		if c.before != "" {
			q.Previous = []retrieval.Turn{{Text: c.before, Weight: 0.9}}
		}
		res, err := b.Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(res.Sources) > 0 && res.Sources[0].Score >= res.Floor {
			got = res.Sources[0].Doc
		}
		if got != c.want {
			t.Errorf("%q finds %q, want %q", c.question, got, c.want)
		}
	}
}
