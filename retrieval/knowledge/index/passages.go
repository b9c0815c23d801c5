package index

import (
	"iter"
	"runtime"
	"strings"

	"sidenote/retrieval/knowledge/index/bm25"
)

// Passage returns what is embedded of a text: the names of its document and section and the
// text, each on a line, without those that are empty.
func Passage(name, section, text string) string {
	var b strings.Builder
	for _, part := range [...]string{name, section, text} {
		if part != "" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

// Passages goes through the texts that are in the base, by segment, with what is embedded of
// each: "" for one that is damaged.
func (s Segments) Passages() iter.Seq2[bm25.Ref, string] {
	return func(yield func(bm25.Ref, string) bool) {
		defer runtime.KeepAlive(s)
		for i := range s {
			for d := range s[i].texts.documents {
				if !s[i].Gone.Has(d) && !s[i].passagesOf(i, d, yield) {
					return
				}
			}
		}
	}
}

// passagesOf goes through the texts of a document of segment i, and tells whether it came to
// the end.
func (s *Segment) passagesOf(i, d int, yield func(bm25.Ref, string) bool) bool {
	name := string(s.texts.name(d))
	for t := s.texts.first(d); t < s.texts.first(d+1); t++ {
		passage := ""
		if s.texts.whole(t) {
			passage = Passage(name, string(s.texts.section(t)), string(s.texts.body(t)))
		}
		if !yield(bm25.Ref{Segment: i, Text: t}, passage) {
			return false
		}
	}
	return true
}
