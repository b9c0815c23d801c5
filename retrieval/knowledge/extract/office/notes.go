package office

import (
	"encoding/xml"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// A noteReader reads the texts of footnotes or endnotes.
type noteReader struct {
	kind  string // footnote or endnote
	texts map[string]string
	size  *int // bytes of the texts of all notes
	id    string
	body  writer // reads one note
}

func (r *noteReader) token(t xml.Token) error {
	switch e := t.(type) {
	case xml.StartElement:
		if e.Name.Local == r.kind {
			r.id = value(e, "id")
			r.body = writer{styles: r.body.styles, numbering: newNumbering()}
			return nil
		}
	case xml.EndElement:
		if e.Name.Local == r.kind {
			r.end()
			return nil
		}
	}
	return r.body.token(t)
}

// end keeps the text of a note as one line.
func (r *noteReader) end() {
	r.body.paragraph()
	var parts []string
	for _, b := range r.body.blocks {
		parts = append(parts, strings.Fields(b.text)...)
	}
	text := strings.Join(parts, " ")
	if *r.size += len(text); *r.size <= extract.MaxText {
		r.texts[r.kind+" "+r.id] = text
	}
}
