package knowledge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// pointers returns pointers to the sources.
func pointers(sources []retrieval.Source) []*retrieval.Source {
	list := make([]*retrieval.Source, len(sources))
	for i := range sources {
		list[i] = &sources[i]
	}
	return list
}

// Hits can be located again by base, document and chunk, with a right or a wrong hint, in a base
// of several segments and in several bases.
func TestLocate(t *testing.T) {
	var groups [][]chunk.Document
	for s := range 3 {
		var group []chunk.Document
		for i := range 9 {
			d := chunk.Document{ID: fmt.Sprintf("d%d.md", s*6+i), Markdown: true} // some replace earlier ones
			for n := range 3 {
				d.Text += fmt.Sprintf("## Part %d\n\nant %s of edition %d, document %d\n\n", n, strings.Repeat(fmt.Sprintf("word%d ", n), 200), s, i)
			}
			group = append(group, d)
		}
		groups = append(groups, group)
	}
	content, err := knowledge.Segmented(t.Context(), deps(), groups...)
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New("b")
	base.Swap(content)
	bases := basesByID{"a": holding(t, "a", knowledgetest.Handbook()), "b": base, "c": holding(t, "c", map[string]string{"x.md": "An ant."})}
	group := bases.group()
	q := retrieval.Query{Text: "ant leave", Encoding: "o200k_base", Bases: []retrieval.Ref{bases["c"].Ref(), bases["a"].Ref(), bases["b"].Ref()}, Settings: retrieval.DefaultSettings()}
	for name, c := range map[string]struct {
		engine interface {
			retrieval.Retriever
			retrieval.Locator
		}
		bases []retrieval.Ref
	}{
		"one base":      {base, []retrieval.Ref{base.Ref()}},
		"several bases": {group, q.Bases},
	} {
		q := q
		q.Bases = c.bases
		found, err := c.engine.Retrieve(t.Context(), q)
		if err != nil || len(found.Sources) < 20 || found.Texts == nil || found.Sources[0].Text != "" {
			t.Fatalf("%s: %+v, %v", name, found, err)
		}
		want, err := retrieval.WithTexts{Next: c.engine}.Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Sources {
			want.Sources[i].Sketch = "" // Read reads texts
		}
		for hint, at := range map[string]func(retrieval.Place) retrieval.Place{
			"right":    func(p retrieval.Place) retrieval.Place { return p },
			"none":     func(retrieval.Place) retrieval.Place { return retrieval.Place{Kept: true} },
			"nonsense": func(retrieval.Place) retrieval.Place { return retrieval.Place{Kept: true, Segment: 1 << 40, Text: -1} },
			"negative": func(p retrieval.Place) retrieval.Place { p.Segment, p.Text = -p.Segment-1, 1<<40; return p },
			"beside":   func(p retrieval.Place) retrieval.Place { p.Text++; return p },
		} {
			again := slices.Clone(found.Sources)
			for i := range again {
				again[i].At = at(again[i].At)
			}
			texts, err := c.engine.Locate(t.Context(), q, pointers(again))
			if err != nil {
				t.Fatalf("%s, hint %s: %v", name, hint, err)
			}
			if diff := cmp.Diff(found.Sources, again); diff != "" {
				t.Fatalf("%s, hint %s: places (-searched +located):\n%s", name, hint, diff)
			}
			if err := texts.Read(pointers(again)); err != nil {
				t.Fatal(err)
			}
			for i := range again {
				again[i].At = retrieval.Place{}
			}
			if diff := cmp.Diff(want.Sources, again); diff != "" {
				t.Fatalf("%s, hint %s (-searched +located):\n%s", name, hint, diff)
			}
		}
		for what, wrong := range map[string]retrieval.Source{
			"another document": {Knowledge: "b", Doc: "d99.md"},
			"no such chunk":    {Knowledge: "b", Doc: "d0.md", Chunk: 99},
			"before the first": {Knowledge: "b", Doc: "d0.md", Chunk: -1},
			"another base":     {Knowledge: "z", Doc: "d0.md"},
		} {
			if _, err := c.engine.Locate(t.Context(), q, []*retrieval.Source{&wrong}); !errors.Is(err, retrieval.ErrNoHit) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

// Texts are those of the generation that was searched: after a change they are still read from it,
// and hits of another generation cannot be located.
func TestTextsOfTheGenerationSearched(t *testing.T) {
	old, changed := build(t, map[string]string{"a.md": "The old ant."}), build(t, map[string]string{"a.md": "The new ant."})
	base := knowledge.New("kb")
	base.Swap(old)
	group := basesByID{"kb": base}.group()
	q := retrieval.Query{Text: "ant", Bases: []retrieval.Ref{base.Ref()}, Settings: retrieval.DefaultSettings()}
	for name, engine := range map[string]interface {
		retrieval.Retriever
		retrieval.Locator
	}{"base": base, "group": group} {
		base.Swap(old)
		found, err := engine.Retrieve(t.Context(), q)
		if err != nil || len(found.Sources) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		for what, now := range map[string]*knowledge.Content{"changed": changed, "still to be indexed": nil} {
			base.Swap(now)
			hits := slices.Clone(found.Sources)
			if _, err := engine.Locate(t.Context(), q, pointers(hits)); !errors.Is(err, retrieval.ErrGone) || !errors.Is(err, retrieval.ErrUnavailable) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err := found.Texts.Read(pointers(hits)); err != nil || hits[0].Text != "The old ant." {
				t.Errorf("%s, %s: read %q, %v", name, what, hits[0].Text, err)
			}
		}
	}
}
