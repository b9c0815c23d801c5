package office

import (
	"context"
	"encoding/xml"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// The parts of a document that are read.
const (
	bodyPart       = "word/document.xml"
	stylesPart     = "word/styles.xml"
	numberingPart  = "word/numbering.xml"
	propertiesPart = "docProps/core.xml"
	footnotesPart  = "word/footnotes.xml"
	endnotesPart   = "word/endnotes.xml"
)

// readDOCX returns the document in raw as Markdown, with headings (by their styles), lists with
// their numbers, tables, and footnotes in brackets. Tracked deletions and hidden text are left out.
// A merged cell stands in each place that it covers. Errors are *extract.Broken, or that
// of ctx.
func readDOCX(ctx context.Context, raw []byte) (extract.Document, error) {
	a, err := open(ctx, extract.DOCX, raw)
	if err != nil {
		return extract.Document{}, err
	}
	if a.files[bodyPart] == nil {
		return extract.Document{}, a.broken()
	}
	s, n, title := newStyles(), newNumbering(), titleReader{}
	w := &writer{styles: s, numbering: n, notes: map[string]string{}}
	for _, part := range []struct {
		name string
		read func(xml.Token) error
	}{{stylesPart, s.token}, {numberingPart, n.token}, {propertiesPart, title.token}} {
		if err := a.each(part.name, part.read); err != nil {
			return extract.Document{}, err
		}
	}
	s.inherit(n)
	size := 0
	for part, kind := range map[string]string{footnotesPart: "footnote", endnotesPart: "endnote"} {
		notes := noteReader{kind: kind, texts: w.notes, size: &size, body: writer{styles: s}}
		if err := a.each(part, notes.token); err != nil {
			return extract.Document{}, err
		}
	}
	if err := a.each(bodyPart, w.token); err != nil {
		return extract.Document{}, err
	}
	name := strings.Join(strings.Fields(title.text), " ")
	text := w.markdown(name)
	if strings.TrimSpace(text) == "" {
		return extract.Document{}, errNoText
	}
	return extract.Document{Name: name, Text: text, Form: extract.Markdown}, nil
}

// A titleReader reads the title in the document's properties.
type titleReader struct {
	in   bool
	text string
}

func (r *titleReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		r.in = t.Name.Local == "title"
	case xml.EndElement:
		r.in = false
	case xml.CharData:
		if r.in && len(r.text)+len(t) < maxTitle {
			r.text += string(t)
		}
	}
	return nil
}
