package index_test

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// Cached texts equal those in the segments, whatever was evicted: they are identified by segment
// and number. Long texts are not cached.
func TestRecentTexts(t *testing.T) {
	var segments index.Segments
	for s := range 2 {
		w := index.Writer{Emit: segments.Take}
		d := index.Document{Row: 1, ID: fmt.Sprint(s), Name: "n", Attributes: "{}", Chunks: []chunk.Chunk{{Text: strings.Repeat("long ", 4000)}}}
		for i := range 700 { // more than are cached
			d.Chunks = append(d.Chunks, chunk.Chunk{Text: fmt.Sprintf("text %d of segment %d", i, s)})
		}
		if err := w.Add(d); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	var texts index.RecentTexts
	same := 0
	for range 2 {
		for s := range segments {
			for i := range 701 {
				ref := bm25.Ref{Segment: s, Text: i}
				wantBefore, wantText, wantAfter, _ := segments.Around(ref)
				var last string
				for range 2 {
					before, text, after, err := texts.Around(segments, ref)
					if before != wantBefore || text != wantText || after != wantAfter || err != nil {
						t.Fatalf("%v: got %.20q, %.20q, %.20q, %v", ref, before, text, after, err)
					}
					if last != "" && unsafe.StringData(last) == unsafe.StringData(text) {
						same++
					}
					last = text
				}
			}
		}
	}
	if want := 4 * 699; same != want { // neither the long one nor the next one
		t.Errorf("%d texts were remembered, want %d", same, want)
	}
}
