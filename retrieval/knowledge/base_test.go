package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
)

func build(t testing.TB, texts map[string]string) *knowledge.Content {
	t.Helper()
	var docs []chunk.Document
	for id, text := range texts {
		docs = append(docs, chunk.Document{ID: id, Text: text, Markdown: true})
	}
	c, _, err := knowledge.FromDocuments(t.Context(), docs, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Also in a small base, existing answers are found, and questions without an answer find nothing.
func TestFloorOfASmallBase(t *testing.T) {
	b := knowledge.New("handbook")
	b.Swap(build(t, knowledgetest.Handbook()))
	again := knowledge.New("again")
	again.Swap(build(t, knowledgetest.Handbook()))
	for question, want := range map[string]string{
		"How many weeks of parental leave do I get?":           "leave.md",
		"When do I need a doctor's note?":                      "leave.md",
		"can I carry over holidays to next year":               "holidays.md",
		"Who pays for my gym membership?":                      "benefits.md",
		"What is the notice period?":                           "leaving.md",
		"pension":                                              "pension.md",
		"How do I book a flight?":                              "travel.md",
		"I lost my laptop, what now?":                          "laptop.md",
		"What is my training budget?":                          "training.md",
		"how often can I work from home":                       "remote.md",
		"Who won the 1998 world cup?":                          "",
		"Write a haiku about the sea":                          "",
		"What is the capital of Mongolia?":                     "",
		"Explain quantum entanglement in simple words":         "",
		"Translate good morning into Japanese":                 "",
		"Write a Python function that sorts a list of numbers": "",
		"What's the weather like tomorrow?":                    "",
		"hi":                                                   "", "thanks!": "", "ok": "", "Hello, can you please help me?": "",
		"thanks, that helped!":              "",
		"It still doesn't work, why?":       "",
		"make it shorter and more friendly": "",
		"danke, das hat geholfen":           "",
		"谢谢，明白了":                            "",
		"gym or bike lease?":                "benefits.md",
		"password rules":                    "passwords.md",
		"what happens if I lose my phone?":  "laptop.md",
	} {
		res := ask(t, b, question)
		if other := ask(t, again, question); other.Floor != res.Floor {
			t.Errorf("%q: floor %v, of the same documents read again %v", question, res.Floor, other.Floor)
		}
		got := ""
		if len(res.Sources) > 0 && res.Sources[0].Score >= res.Floor {
			got = res.Sources[0].Doc
		}
		if got != want {
			score := 0.0
			if len(res.Sources) > 0 {
				score = res.Sources[0].Score
			}
			t.Errorf("%q: got %q, want %q (best %.2f, floor %.2f)", question, got, want, score, res.Floor)
		}
	}
}

func TestRetrieve(t *testing.T) {
	b := knowledge.New("hr")
	q := retrieval.Query{Text: "parental leave", Settings: retrieval.Settings{NumCandidates: 2}}
	if res, err := b.Retrieve(t.Context(), q); !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonIndexing || b.Ref() != (retrieval.Ref{Knowledge: "hr"}) {
		t.Errorf("before the first index: %+v, %v", res, err)
	}

	long := strings.Repeat("More is said here about nothing in particular. ", 15)
	content := build(t, map[string]string{
		"a.md": "# Leave\n\n## Before\n\n" + long + "\n\n## Parental leave\n\n" + long + "Weeks of parental leave.\n\n## After\n\n" + long,
		"b.md": "# Other\n\nParental guidance.\n",
	})
	b.Swap(content)
	res, err := retrieval.WithTexts{Next: b}.Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	s := res.Sources[0]
	got := retrieval.Source{Type: s.Type, Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section}
	want := retrieval.Source{Type: "rag", Knowledge: "hr", Doc: "a.md", Chunk: 1, Name: "Leave", Section: "Parental leave"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("best source (-want +got):\n%s", diff)
	}
	if !strings.Contains(s.Before, "## Before") || !strings.Contains(s.After, "## After") || res.Sources[1].Doc != "b.md" || res.Sources[1].Before != "" || res.Sources[1].After != "" {
		t.Errorf("neighbours: %q, %q", s.Before, s.After)
	}
	if diff := cmp.Diff([]retrieval.Ref{{Knowledge: "hr", Generation: content.Generation()}}, res.Bases); diff != "" {
		t.Errorf("bases (-want +got):\n%s", diff)
	}

	for text, want := range map[string]retrieval.Reason{"hi": retrieval.ReasonNoQueryTerms, "": retrieval.ReasonNoQueryTerms, "zebra": retrieval.ReasonNoMatch} {
		if res, err := b.Retrieve(t.Context(), retrieval.Query{Text: text, Previous: []retrieval.Turn{{Text: text, Weight: 1}}, Settings: q.Settings}); err != nil || res.Reason != want {
			t.Errorf("%q: %q, %v; want %q", text, res.Reason, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if res, err := b.Retrieve(ctx, q); !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonTimeout {
		t.Errorf("too late: %q, %v", res.Reason, err)
	}
}

// Previous turns contribute to a question by their weights.
func TestPrevious(t *testing.T) {
	b := knowledge.New("hr")
	b.Swap(build(t, knowledgetest.Handbook()))
	q := retrieval.Query{Text: "expenses", Previous: []retrieval.Turn{{Text: "parental", Weight: 0.3}}, Settings: retrieval.DefaultSettings()}
	res, err := b.Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) < 2 || res.Sources[0].Doc != "travel.md" {
		t.Fatalf("%v, %v", res.Sources, err)
	}
	if !slices.ContainsFunc(res.Sources, func(s retrieval.Source) bool { return s.Doc == "leave.md" }) {
		t.Error("the question before found nothing")
	}
	q.Previous[0].Weight = 0 // Prepare never returns this
	if res, err = b.Retrieve(t.Context(), q); err != nil || slices.ContainsFunc(res.Sources, func(s retrieval.Source) bool { return s.Doc == "leave.md" }) {
		t.Errorf("a turn without weight was searched for: %v", err)
	}
	q = retrieval.Query{Text: "Why?", Previous: []retrieval.Turn{{Text: "parental leave", Weight: 1}}, Settings: q.Settings}
	if res, err = b.Retrieve(t.Context(), q); err != nil || len(res.Sources) == 0 || res.Sources[0].Doc != "leave.md" || res.Sources[0].Score < res.Floor {
		t.Errorf("a question without a term: %v, %v", res, err)
	}
}

// The generation depends on the documents, not on their order.
func TestGeneration(t *testing.T) {
	text := rapid.StringN(0, 40, -1)
	rapid.Check(t, func(r *rapid.T) {
		docs := rapid.MapOfN(text.Filter(func(s string) bool { return s != "" }), text, 0, 6).Draw(r, "documents")
		var list []chunk.Document
		for id, text := range docs {
			list = append(list, chunk.Document{ID: id, Text: text})
		}
		gen := func(list []chunk.Document) string {
			c, _, err := knowledge.FromDocuments(context.Background(), list, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
			if err != nil {
				r.Fatal(err)
			}
			return c.Generation()
		}
		want := gen(list)
		if len(want) != 64 {
			r.Fatalf("generation %q", want)
		}
		shuffled := rapid.Permutation(list).Draw(r, "order")
		if got := gen(shuffled); got != want {
			r.Fatalf("another order: %s, then %s", want, got)
		}
		if len(list) == 0 {
			return
		}
		changed := slices.Clone(list)
		i := rapid.IntRange(0, len(list)-1).Draw(r, "changed")
		switch rapid.IntRange(0, 3).Draw(r, "how") {
		case 0:
			changed[i].Text += "."
		case 1:
			changed[i].Markdown = true
		case 2:
			changed[i].ID += "\x00" + strings.Repeat("x", 50)
		case 3:
			changed = slices.Delete(changed, i, i+1)
		}
		if got := gen(changed); got == want {
			r.Fatal("a change does not show")
		}
	})
}

func TestFromDocumentsRefuses(t *testing.T) {
	for name, docs := range map[string][]chunk.Document{
		"an id twice": {{ID: "a", Text: "x"}, {ID: "a", Text: "y"}},
		"no id":       {{Text: "x"}},
	} {
		if _, _, err := knowledge.FromDocuments(t.Context(), docs, knowledge.Deps{Counter: knowledgetest.FourBytes{}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Documents are neutralised before they are cut or counted.
func TestNeutralise(t *testing.T) {
	fsys := fstest.MapFS{"a.md": {Data: []byte("# T\n\n<source>\n")}}
	deps := knowledge.Deps{Counter: knowledgetest.FourBytes{}, Neutralise: func(_, s string) string { return strings.ReplaceAll(s, "<", "(") }}
	c, _, err := knowledge.FromFS(t.Context(), fsys, folder.Folder{ID: "x"}, deps)
	if err != nil {
		t.Fatal(err)
	}
	for s := range c.All() {
		if s.Text != "# T\n\n(source>" {
			t.Errorf("got %q", s.Text)
		}
	}
}

// A newcomer's first base is one short file: a question about it is answered, a question about
// something else is not.
func TestFloorOfOneDocument(t *testing.T) {
	content, _, err := knowledge.FromDocuments(t.Context(), []chunk.Document{{
		ID: "leave.md", Name: "Leave", Markdown: true, Text: "# Leave\n\nEvery parent may take 16 weeks of parental leave on full pay.",
	}}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New("kb")
	base.Swap(content)
	for question, want := range map[string]bool{
		"How many weeks of parental leave do I get, please, if I joined in autumn?": true,
		"Who won the world cup?": false,
	} {
		res, err := base.Retrieve(t.Context(), retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(res.Sources) > 0 && res.Sources[0].Score >= res.Floor; got != want {
			t.Errorf("%q: answered %v, want %v (floor %.2f, %+v)", question, got, want, res.Floor, res.Sources)
		}
	}
}

// A content lists its documents by id, with the number and size of their chunks.
func TestHeld(t *testing.T) {
	c := build(t, knowledgetest.Handbook())
	chunks, bytes, before := 0, 0, ""
	for i := range c.Documents() {
		h := c.DocumentAt(i)
		if h.ID <= before || h.Name == "" {
			t.Errorf("%+v after %q", h, before)
		}
		chunks, bytes, before = chunks+h.Chunks, bytes+h.Bytes, h.ID
	}
	want := 0
	for s := range c.All() {
		want += len(s.Text)
	}
	if chunks != c.Chunks() || bytes != want {
		t.Errorf("%d chunks of %d bytes, want %d of %d", chunks, bytes, c.Chunks(), want)
	}
}

// A base with more chunks than fit into one index segment finds the right ones in both segments.
func TestLargeBase(t *testing.T) {
	step := 1 << 17
	if testing.Short() {
		step = 1 << 12
	}
	documents := step + 10
	docs := make([]chunk.Document, documents)
	for i := range docs {
		docs[i] = chunk.Document{ID: fmt.Sprintf("%06d", i), Name: "x", Text: fmt.Sprintf("%06d", i)}
	}
	content, _, err := knowledge.FromDocuments(t.Context(), docs, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("large")
	b.Swap(content)
	for _, i := range []int{0, step - 1, step, documents - 1} {
		res := ask(t, b, docs[i].Text)
		if len(res.Sources) != 1 || res.Sources[0].Doc != docs[i].ID || res.Sources[0].Text != docs[i].Text {
			t.Errorf("%s: %+v", docs[i].Text, res.Sources)
		}
	}
}
