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

// A Cut is a document with its chunks.
type Cut struct {
	chunk.Document // without its text
	Chunks         []chunk.Chunk
	Sum            chunk.Sum // digest of the document before it was cut
}

// Cut divides a document into chunks for a base. It expects attributes as chunk.Document.Normal
// returns them. The only error is a document that is too large for the index.
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
	whole := index.Document{Name: cut.Name, Chunks: cut.Chunks}
	return cut, whole.CheckSize()
}

// Twins returns those of some cut documents that need not be searched, because another one of them says
// the same in another format, see index.Segments.WithoutTwins.
func Twins(cuts []Cut) ([]index.Twin, error) {
	var segments index.Segments
	writer := index.Writer{Emit: segments.Take}
	for i := range cuts {
		if err := writer.Add(cuts[i].indexed(int64(i))); err != nil {
			return nil, err
		}
	}
	if err := writer.Flush(); err != nil {
		return nil, err
	}
	return segments.WithoutTwins(new(index.Verdicts)).Twins(), nil
}

// indexed returns the document in the form for the index; row is its number there.
func (c *Cut) indexed(row int64) index.Document {
	return index.Document{Row: row, ID: c.ID, Name: c.Name, Attributes: chunk.Encoded(c.Attributes), Chunks: c.Chunks}
}

// maxLabel bounds names and sections, in bytes.
const maxLabel = 200

// label turns a title into one line that is safe for a list or a terminal.
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

// fileTitle returns a name for a document, made from its file name.
func fileTitle(d chunk.Document) string {
	base := path.Base(cmp.Or(d.File, d.ID))
	if d.Form != extract.Code { // readers know code files by their full name
		base = strings.TrimSuffix(base, path.Ext(base))
	}
	return strings.TrimSpace(base + " " + d.Key)
}
