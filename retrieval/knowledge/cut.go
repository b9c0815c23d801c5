package knowledge

import (
	"cmp"
	"path"
	"strings"
	"unicode"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/index"
)

// A Cut is a document that was cut into chunks.
type Cut struct {
	chunk.Document // without its text
	Chunks         []chunk.Chunk
	Sum            chunk.Sum // of the document as it was
}

// Cut cuts a document for a base. Its attributes are as document.Normal leaves them. The
// only error is that it is too large for the index.
func (d Deps) Cut(base string, doc chunk.Document) (Cut, error) {
	sum := doc.Digest()
	body, title := doc.Text, ""
	if doc.Markdown {
		var matter extract.FrontMatter
		matter, body = extract.SplitFrontMatter(body)
		title = matter.Title()
	}
	if d.Neutralise != nil {
		body = d.Neutralise(base, body)
	}
	chunks, heading := chunk.Cut(body, doc, d.Counter)
	for i := range chunks {
		chunks[i].Section = label(chunks[i].Section)
	}
	doc.Name = label(cmp.Or(doc.Name, title, heading, fileTitle(doc)))
	doc.Text = ""
	cut := Cut{Document: doc, Chunks: chunks, Sum: sum}
	whole := cut.indexed(0)
	return cut, whole.CheckSize()
}

// indexed returns the document as it goes into the index; row is its number there.
func (c *Cut) indexed(row int64) index.Document {
	return index.Document{Row: row, ID: c.ID, Name: c.Name, Attributes: chunk.Encoded(c.Attributes), Chunks: c.Chunks}
}

// maxLabel bounds names and sections, in bytes.
const maxLabel = 200

// label makes one line fit for a list or a terminal out of a title.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.C, r): // control characters, bidi marks, private use
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxLabel {
		s = strings.ToValidUTF8(s[:maxLabel-len("…")], "") + "…"
	}
	return s
}

// fileTitle names a document after its file.
func fileTitle(d chunk.Document) string {
	base := path.Base(cmp.Or(d.File, d.ID))
	if d.Form != extract.Code { // whose readers know it by all of its name
		base = strings.TrimSuffix(base, path.Ext(base))
	}
	return strings.TrimSpace(base + " " + d.Key)
}
