package index

import (
	"iter"
	"path"
	"runtime"
	"slices"
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
// each: "" for one that is damaged. A name that is that of the file is no part of it: a document
// that is moved or renamed keeps its vectors.
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

// namedByID tells whether a document has its name from its id: the name of a file, with or without
// its ending, and for a part of one with its key behind it.
func namedByID(id, name string) bool {
	short := func(file string) string { return strings.TrimSuffix(file, path.Ext(file)) }
	base := path.Base(id)
	file, key, _ := strings.Cut(base, "#")
	return slices.Contains([]string{base, short(base), file + " " + key, short(file) + " " + key}, name)
}

// passagesOf goes through the texts of a document of segment i, and tells whether it came to
// the end.
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
