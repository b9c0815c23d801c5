package chunk_test

import (
	"strings"
	"testing"
)

// A document that is parsed in several windows is cut like one: headings stay in force, listings
// stay listings, and nothing is lost or repeated.
func TestLongDocument(t *testing.T) {
	section := "## Part\n\n" + strings.Repeat("Some words that say nothing much.\n", 40) + "\n"
	listing := "```go\n" + strings.Repeat("# no heading\n\nx := 1\n", 20_000) + "```\n\n"
	text := "# Book\n\n# Chapter\n\n" + strings.Repeat(section, 400) + listing + "## Last\n\nThe end.\n"
	chunks := cut(t, "book.md", text)
	words, listed := 0, 0
	for _, ch := range chunks {
		if ch.Section != "Chapter > Part" && ch.Section != "Chapter > Last" && ch.Section != "Chapter" {
			t.Fatalf("section %q of %.80q", ch.Section, ch.Text)
		}
		words += strings.Count(ch.Text, "nothing much")
		if n := strings.Count(ch.Text, "x := 1"); n > 0 {
			listed += n
			if !strings.Contains(ch.Text, "```go\n") || !strings.Contains(ch.Text, "\n```") {
				t.Fatalf("a part of a listing is none: %.80q", ch.Text)
			}
		}
	}
	if words != 40*400 || listed != 20_000 {
		t.Errorf("%d lines and %d of the listing, want %d and %d", words, listed, 40*400, 20_000)
	}
	if last := chunks[len(chunks)-1]; !strings.HasSuffix(last.Text, "The end.") {
		t.Errorf("last chunk %q, %q", last.Section, last.Text)
	}
}
