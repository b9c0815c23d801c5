package knowledge_test

import (
	"errors"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
)

// A document can be read on from any chunk by callers who may find it. Others get the same error
// as for a missing document.
func TestPassage(t *testing.T) {
	part := func(n string) string { return "## Part " + n + "\n\n" + strings.Repeat("ant "+n+" ", 300) + "\n\n" }
	content, err := knowledge.Segmented(t.Context(), deps(),
		[]chunk.Document{{ID: "old.md", Text: part("gone"), Markdown: true}, {ID: "secret.md", Text: part("secret"), Markdown: true, Attributes: map[string]any{"audience": "board"}}},
		[]chunk.Document{{ID: "old.md", Text: part("one") + part("two") + part("three"), Markdown: true, Attributes: map[string]any{"audience": "all"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New("b")
	base.Swap(content)
	group := basesByID{"b": base, "empty": knowledge.New("empty")}.group()
	all, err := filter.Parse([]byte(`{"type":"eq","key":"audience","value":"all"}`))
	if err != nil {
		t.Fatal(err)
	}
	q := retrieval.Query{Bases: refs("b", "empty"), Filter: all}
	list, err := group.Passage(t.Context(), q, retrieval.Passage{Knowledge: "b", Doc: "old.md", First: 1, End: 99})
	if err != nil || len(list) < 2 {
		t.Fatalf("%d chunks, %v", len(list), err)
	}
	for i, src := range list {
		if src.Chunk != i+1 || src.Knowledge != "b" || src.Doc != "old.md" || src.Before+src.After != "" || !strings.Contains(src.Text, "ant") || src.At.Kept {
			t.Errorf("chunk %d: %+v", i+1, src)
		}
	}
	if last := list[len(list)-1]; last.Section != "Part three" {
		t.Errorf("ends in %q", last.Section)
	}
	one, err := group.Passage(t.Context(), q, retrieval.Passage{Knowledge: "b", Doc: "old.md", First: 1, End: 2})
	if err != nil || len(one) != 1 || one[0] != list[0] {
		t.Errorf("%+v, %v", one, err)
	}
	for name, p := range map[string]retrieval.Passage{
		"hidden":        {Knowledge: "b", Doc: "secret.md", End: 1},
		"no document":   {Knowledge: "b", Doc: "secreu.md", End: 1},
		"no chunk":      {Knowledge: "b", Doc: "old.md", First: 99, End: 100},
		"before it":     {Knowledge: "b", Doc: "old.md", First: -1, End: 1},
		"not indexed":   {Knowledge: "empty", Doc: "secret.md", End: 1},
		"foreign base":  {Knowledge: "c", Doc: "secret.md", End: 1},
		"path":          {Knowledge: "b", Doc: "../../etc/passwd", End: 1},
		"empty passage": {Knowledge: "b", Doc: "none", First: 3, End: 1},
	} {
		list, err := group.Passage(t.Context(), q, p)
		if len(list) > 0 || !errors.Is(err, retrieval.ErrNoHit) || errors.Is(err, retrieval.ErrUnavailable) {
			t.Errorf("%s: %d chunks, %v", name, len(list), err)
		}
	}
	_, hidden := group.Passage(t.Context(), q, retrieval.Passage{Knowledge: "b", Doc: "secret.md", End: 1})
	_, missing := group.Passage(t.Context(), q, retrieval.Passage{Knowledge: "b", Doc: "secreu.md", End: 1})
	if strings.ReplaceAll(missing.Error(), "secreu", "secret") != hidden.Error() {
		t.Errorf("%q, but %q", hidden, missing)
	}
}
