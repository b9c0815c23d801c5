package index

import (
	"iter"
	"path"
	"runtime"
	"slices"
	"strings"

	"sidenote/retrieval/knowledge/index/bm25"
)

// Passage returns the passage of a text that is embedded: the names of its document and section
// and the text, one per line, without empty ones.
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

// PassageOf returns the passage of a text of a document. A document name derived from its id is left
// out, so that a moved or renamed document keeps its vectors.
func PassageOf(id, name, section, text string) string {
	if namedByID(id, name) {
		name = ""
	}
	return Passage(name, section, text)
}

// Passages yields the texts in the base, by segment, with their passages; "" for a damaged one. A
// document name derived from the file name is left out, so that a moved or renamed document keeps
// its vectors.
func (s Segments) Passages() iter.Seq2[bm25.Ref, string] {
	return func(yield func(bm25.Ref, string) bool) {
		defer runtime.KeepAlive(s)
		for i := range s {
			for d := range s[i].texts.documents {
				if s[i].searched(d) && !s[i].passagesOf(i, d, yield) {
					return
				}
			}
		}
	}
}

// namedByID reports whether a document's name is derived from its id: the file name, with or
// without extension, and the key for a part of a file.
func namedByID(id, name string) bool {
	short := func(file string) string { return strings.TrimSuffix(file, path.Ext(file)) }
	base := path.Base(id)
	file, key, _ := strings.Cut(base, "#")
	return slices.Contains([]string{base, short(base), file + " " + key, short(file) + " " + key}, name)
}

// passagesOf yields the texts of a document of segment i, and returns false if yield did.
func (s *Segment) passagesOf(i, d int, yield func(bm25.Ref, string) bool) bool {
	id, name := s.labels(d)
	if namedByID(id, name) {
		name = ""
	}
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
