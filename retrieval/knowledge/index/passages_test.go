package index_test

import (
	"slices"
	"testing"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
)

// The embedded passage of a chunk includes the title of its document, but not a name derived from
// the file name, which may change.
func TestPassages(t *testing.T) {
	for _, c := range []struct{ id, name, want string }{
		{"policies/leave.md", "Parental leave", "Parental leave\nBirth\n16 weeks"},
		{"policies/leave.md", "leave", "Birth\n16 weeks"},
		{"main.go", "main.go", "Birth\n16 weeks"},
		{"notes/C#.txt", "C#", "Birth\n16 weeks"},
		{"faq.jsonl#a", "faq a", "Birth\n16 weeks"},
		{"faq.jsonl#a", "A question", "A question\nBirth\n16 weeks"},
		{"plain", "plain", "Birth\n16 weeks"},
	} {
		var segments index.Segments
		w := index.Writer{Emit: segments.Take}
		d := index.Document{Row: 1, ID: c.id, Name: c.name, Attributes: "{}", Chunks: []chunk.Chunk{{Section: "Birth", Text: "16 weeks"}}}
		if err := w.Add(d); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, passage := range segments.Passages() {
			got = append(got, passage)
		}
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s, %q: %q, want %q", c.id, c.name, got, c.want)
		}
	}
}
