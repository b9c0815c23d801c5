package inspector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite"
)

// source returns an entry of a document; id 0 means that it is not in the prompt.
func source(doc string, id int, fate rewrite.Inclusion, tokens int) rewrite.SourceEntry {
	return rewrite.SourceEntry{ID: id, Knowledge: "kb", Doc: doc, Inclusion: fate, Tokens: tokens}
}

func TestAlign(t *testing.T) {
	before := []rewrite.SourceEntry{
		source("same", 1, rewrite.Included, 100), source("moved", 2, rewrite.Included, 100), source("cut", 3, rewrite.Included, 100), source("out", 4, rewrite.Included, 100), source("gone", 5, rewrite.Cut, 50),
		source("fell", 0, rewrite.Excluded, 0), source("rose", 0, rewrite.Excluded, 0), source("lost", 0, rewrite.Excluded, 0),
	}
	after := []rewrite.SourceEntry{
		source("fell", 0, rewrite.Excluded, 0), source("out", 0, rewrite.Excluded, 0), source("new", 3, rewrite.Included, 70), source("rose", 4, rewrite.Included, 60),
		source("same", 1, rewrite.Included, 100), source("cut", 5, rewrite.Cut, 40), source("moved", 2, rewrite.Included, 130), source("found", 0, rewrite.Excluded, 0),
	}
	after[6].ID = 6
	var got []string
	for _, r := range alignRows(before, after) {
		got = append(got, strings.TrimSuffix(r.Source().Doc+": "+r.Change, ": "))
	}
	want := "same, new: new, rose: now in, cut: now cut, moved: [2] is [6], out: now out, gone: gone, fell, found: found now, lost: not found now"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	for tokens, want := range map[int]string{90: "shorter", 110: "longer", 100: ""} {
		if rows := alignRows(before[:1], []rewrite.SourceEntry{source("same", 1, rewrite.Included, tokens)}); rows[0].Change != want {
			t.Errorf("%d tokens: %q", tokens, rows[0].Change)
		}
	}
}

// Each source in the lists has one row with its entries; sources differ by chunk and base; equal
// entries have no change.
func TestAlignKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) []rewrite.SourceEntry {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rewrite.SourceEntry {
				return rewrite.SourceEntry{
					ID: rapid.IntRange(0, 4).Draw(t, "id"), Knowledge: fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "kb")), Doc: fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "doc")),
					Chunk: rapid.IntRange(0, 1).Draw(t, "chunk"), Inclusion: rapid.SampledFrom([]rewrite.Inclusion{rewrite.Included, rewrite.Cut, rewrite.Excluded}).Draw(t, "fate"),
				}
			}), 0, 12).Draw(t, name)
		}
		before, after := draw("before"), draw("after")
		rows := alignRows(before, after)
		name := func(s *rewrite.SourceEntry) string { return s.Knowledge + "/" + s.Doc + "#" + fmt.Sprint(s.Chunk) }
		seen := map[string]bool{}
		for i := range rows {
			at := name(rows[i].Source())
			if seen[at] {
				t.Fatalf("%s has two rows", at)
			}
			seen[at] = true
			for list, s := range map[*rewrite.SourceEntry][]rewrite.SourceEntry{rows[i].Before: before, rows[i].After: after} {
				first := slices.IndexFunc(s, func(s rewrite.SourceEntry) bool { return name(&s) == at })
				if list == nil && first >= 0 || list != nil && (first < 0 || list != &s[first]) {
					t.Fatalf("%s: %v is not the first of %v", at, list, s)
				}
			}
		}
		for i := range before {
			if !seen[name(&before[i])] {
				t.Fatalf("%s has no row", name(&before[i]))
			}
		}
		for _, r := range alignRows(before, before) {
			if r.Change != "" {
				t.Fatalf("the same: %s", r.Change)
			}
		}
	})
}
