package retrieval_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
)

// Sources and excluded candidates have the strength that orders them: as a multiple of the
// threshold their score, and what was found of their document and base. They have none where
// relevance orders them.
func TestStrength(t *testing.T) {
	shown := func(name string, res retrieval.Result) string {
		var list []string
		for _, s := range res.Sources {
			list = append(list, fmt.Sprintf("%s#%d %.4g", s.Doc, s.Chunk, s.Strength))
		}
		for x := range res.Excluded.All() {
			list = append(list, fmt.Sprintf("out %s#%d %.4g", x.Doc, x.Chunk, x.Strength))
		}
		return name + ": " + strings.Join(list, ", ")
	}
	other := chunk("other.md", 0, 6.2, "o")
	for _, c := range []struct {
		name  string
		bases engines
		want  string
	}{
		{"several of one document", engines{"a": has(2, other, chunk("page.md", 0, 6, "p"), chunk("page.md", 1, 4, "q"), chunk("page.md", 2, 1, "r"))}, "page.md#0 5.297, other.md#0 5.037, page.md#1 4.047, out page.md#2 2.172"},
		{"one of each document", engines{"a": has(2, other, chunk("page.md", 0, 6, "p"))}, "other.md#0 0, page.md#0 0"},
		{"one of each, of two bases", engines{"a": has(2, other), "b": has(2, chunk("page.md", 0, 2, "p"))}, "other.md#0 4.811, page.md#0 1.373"},
		{"relevances that are 1", engines{"a": has(0, chunk("page.md", 0, 6, "p"), chunk("page.md", 1, 4, "q"))}, "page.md#0 0, page.md#1 0"},
	} {
		ids := []string{"a", "b"}[:len(c.bases)]
		res, err := c.bases.pipeline().Retrieve(t.Context(), asking(ids...))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := shown(c.name, res), c.name+": "+c.want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
