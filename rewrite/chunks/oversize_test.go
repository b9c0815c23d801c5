package chunks_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite/chunks"
)

// A chunk larger than the whole budget is excluded as too-large, whatever its type, its form and
// the order in which chunks are tried, and the others are added as if it were not there.
func TestOversizedChunkIsExcluded(t *testing.T) {
	long := strings.Repeat("word ", 45_000)
	row, err := chunks.JSON([]byte(`{"rows": ["` + long + `"]}`))
	if err != nil {
		t.Fatal(err)
	}
	b := &chunks.Builder{Counter: encoding(t, "o200k_base")}
	others := []chunks.Chunk{
		{ID: "u1", Type: chunks.Agent, Role: "user", Content: chunks.Text("A hotel in Rome?")},
		{ID: "c1", Type: chunks.Workflow, Content: chunks.Text("Rome"), Metadata: map[string]any{"tool": "search"}},
		{ID: "u2", Type: chunks.Agent, Role: "user", Content: chunks.Text("Book it.")},
	}
	want, err := b.Build(others, chunks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, large := range []chunks.Chunk{
		{Type: chunks.Environment, Content: chunks.Text(long), Metadata: map[string]any{"tool": "search"}},
		{Type: chunks.Environment, Content: row, Priority: "1000"},
		{Type: chunks.System, Content: chunks.Text(long), NoTruncate: true},
		{Type: chunks.Custom, Content: chunks.Text("x"), Metadata: map[string]any{"type": "x"}, Subtype: "title"},
	} {
		for _, fit := range []chunks.Fit{chunks.FitFirst, chunks.FitRecent, chunks.FitPriority} {
			for _, truncate := range []bool{false, true} {
				for _, oversize := range []chunks.Oversize{"", chunks.OversizeExclude, chunks.OversizeRefuse} {
					name := fmt.Sprintf("%s, whole %t, %s, truncate %t, oversize %q", large.Type, large.NoTruncate, fit, truncate, oversize)
					b, large := *b, large
					if large.Subtype == "title" { // the text around the content is too large, and cannot be cut
						large.NoTruncate = true
						rule := chunks.Rule{Tag: "note", When: chunks.When{Subtype: "title"}, Body: long + "{{content}}"}
						b.Renderers, b.Tags = []chunks.Renderer{&rule}, []string{"note"}
					}
					large.ID, large.NoTruncate = "big", large.NoTruncate || truncate
					list := append([]chunks.Chunk{others[0], others[1], large}, others[2:]...)
					r, err := b.Build(list, chunks.Options{Fit: fit, Truncate: truncate, Oversize: oversize})
					if oversize == chunks.OversizeRefuse {
						if err == nil || !strings.HasPrefix(err.Error(), "chunks[2].content: needs ") {
							t.Errorf("%s: %v", name, err)
						}
						continue
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					if len(r.Excluded) != 1 || r.Excluded[0].ID != "big" || r.Excluded[0].Reason != chunks.OutTooLarge || !strings.HasSuffix(r.Excluded[0].Detail, " tokens; max_tokens is 16000") {
						t.Errorf("%s: out %+v", name, r.Excluded)
					}
					if fmt.Sprint(r.Messages) != fmt.Sprint(want.Messages) || r.TokenCount != want.TokenCount {
						t.Errorf("%s:\n got %v\nwant %v", name, r.Messages, want.Messages)
					}
				}
			}
		}
	}
}

// A chunk that may be cut is cut, whatever oversize says; one that fits into the budget but not
// together with others, or not into the window, keeps its reason.
func TestOversizeConcernsOnlyTheWholeBudget(t *testing.T) {
	b := &chunks.Builder{Counter: encoding(t, "o200k_base")}
	text := func(id string, words int) chunks.Chunk {
		return chunks.Chunk{ID: id, Type: chunks.Custom, Content: chunks.Text(strings.Repeat("word ", words))}
	}
	for _, c := range []struct {
		list []chunks.Chunk
		o    chunks.Options
		cut  string
		out  string
	}{
		{[]chunks.Chunk{text("a", 900)}, chunks.Options{MaxTokens: 500, Truncate: true}, "a", ""},
		{[]chunks.Chunk{text("a", 900)}, chunks.Options{MaxTokens: 500, Truncate: true, Oversize: chunks.OversizeRefuse}, "a", ""},
		{[]chunks.Chunk{text("a", 300), text("b", 300)}, chunks.Options{MaxTokens: 500, Oversize: chunks.OversizeRefuse}, "", "b budget"},
		{[]chunks.Chunk{text("a", 300)}, chunks.Options{MaxTokens: 500, Window: 200, Oversize: chunks.OversizeRefuse}, "", "a window"},
		{[]chunks.Chunk{text("a", 900), text("b", 300)}, chunks.Options{MaxTokens: 500, Window: 200}, "", "a too-large b window"},
		{[]chunks.Chunk{text("a", 450), text("b", 900)}, chunks.Options{MaxTokens: 500, Truncate: true}, "", "b too-large"},
	} {
		r, err := b.Build(c.list, c.o)
		if err != nil {
			t.Errorf("%+v: %v", c.o, err)
			continue
		}
		var out []string
		for _, x := range r.Excluded {
			out = append(out, x.ID, string(x.Reason))
		}
		if got := strings.Join(out, " "); got != c.out || r.Cut != c.cut {
			t.Errorf("%+v: out %q, cut %q; want %q, %q", c.o, got, r.Cut, c.out, c.cut)
		}
	}
}
