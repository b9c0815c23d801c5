package office

import (
	"context"
	"encoding/xml"
	"errors"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// readPPTX returns the slides of a file as sections, with tables, diagrams and notes.
func readPPTX(ctx context.Context, raw []byte) (extract.Document, error) {
	a, err := open(ctx, extract.PPTX, raw)
	if err != nil {
		return extract.Document{}, err
	}
	main, err := a.mainPart()
	if err != nil {
		return extract.Document{}, err
	}
	parts, err := a.relations(main)
	if err != nil {
		return extract.Document{}, err
	}
	var ids []string
	err = a.each(main, func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "sldId" {
			ids = append(ids, relationID(e))
		}
		return nil
	})
	if err != nil {
		return extract.Document{}, err
	}
	title, err := a.title()
	if err != nil {
		return extract.Document{}, err
	}
	r := &slideReader{}
	seen := map[string]bool{}
	for _, id := range ids {
		if part := parts[id]; part.kind == "slide" && !seen[part.part] {
			seen[part.part] = true
			if err := r.slide(a, part.part); err != nil {
				return r.document(title, err)
			}
		}
	}
	return r.document(title, nil)
}

// relationID returns the id of the part that an element refers to. The element may have an id of
// its own, in no namespace.
func relationID(e xml.StartElement) string {
	for _, a := range e.Attr {
		if a.Name.Local == "id" && a.Name.Space != "" {
			return a.Value
		}
	}
	return ""
}

// document returns the slides that were read; err is why the others were not.
func (s *slides) document(name string, err error) (extract.Document, error) {
	text := s.markdown(name)
	if _, broken := errors.AsType[*extract.Broken](err); err != nil && !broken {
		return extract.Document{}, err
	}
	switch {
	case strings.TrimSpace(text) == "" && err != nil:
		return extract.Document{}, err
	case strings.TrimSpace(text) == "":
		return extract.Document{}, errNoText
	case err != nil:
		err = extract.Brokenf("slides from %d on: %v", s.count, err)
	}
	return extract.Document{Name: name, Text: text, Form: extract.Markdown}, err
}

// A slideReader reads slides and their notes.
type slideReader struct {
	slides
	hidden bool // the slide is

	skip    int  // open elements in one that is left out
	omitted bool // the text of the current shape is left out
	inBody  bool // the current shape is a placeholder for text, whose paragraphs are items
	level   int
	mark    string // of the current paragraph
	inText  bool
}

// slide reads a slide, its diagrams and its notes.
func (r *slideReader) slide(a *archive, part string) error {
	r.begin()
	r.hidden = false
	if err := a.each(part, r.token); err != nil || r.hidden {
		r.end()
		return err
	}
	related, err := a.relations(part)
	if err != nil {
		return err
	}
	for _, id := range sortedIDs(related) {
		switch related[id].kind {
		case "diagramData":
			err = a.each(related[id].part, r.token)
		case "notesSlide":
			r.inNotes = true
			err = a.each(related[id].part, r.token)
			r.inNotes = false
		}
		if err != nil {
			break
		}
	}
	r.end()
	return err
}

func (r *slideReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if r.skip > 0 || r.hidden {
			r.skip++
			return nil
		}
		r.start(t)
	case xml.EndElement:
		if r.skip > 0 {
			r.skip--
			return nil
		}
		r.finish(t.Name.Local)
	case xml.CharData:
		if r.inText && r.skip == 0 && !r.omitted {
			r.write(t)
		}
	}
	return r.check()
}

func (r *slideReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "sld":
		r.hidden = value(e, "show") == "0" || value(e, "show") == "false"
	case "sp", "graphicFrame", "pt":
		r.omitted, r.inBody, r.inTitle = false, false, false
	case "cNvPr":
		if isTrue(value(e, "hidden")) {
			r.omitted = true
		}
	case "ph":
		r.placeholder(value(e, "type"))
	case "Fallback", "del":
		r.skip++
	case "p":
		r.level, r.mark = 0, ""
		if r.inBody && !r.inNotes {
			r.mark = bullet
		}
	case "pPr":
		n, _ := strconv.Atoi(value(e, "lvl"))
		r.level = min(max(n, 0), maxListDepth)
	case "buNone":
		r.mark = ""
	case "buChar", "buAutoNum", "buBlip":
		r.mark = bullet
	case "rPr":
		if n, _ := strconv.Atoi(value(e, "baseline")); n > 0 {
			r.script = superscript
		} else if n < 0 {
			r.script = subscript
		}
	case "t":
		r.inText = true
	case "br":
		r.write([]byte{'\n'})
	case "tab":
		r.write([]byte{' '})
	case "tbl":
		r.openTable()
	case "tr":
		r.openRow()
	case "tc":
		r.openCell()
		if r.tables == 1 {
			r.table.above, r.table.left = isTrue(value(e, "vMerge")), isTrue(value(e, "hMerge"))
		}
	}
}

// placeholder begins a shape that takes its form from the layout of the slide.
func (r *slideReader) placeholder(kind string) {
	switch kind {
	case "title", "ctrTitle":
		r.inTitle = !r.inNotes
	case "body", "obj", "":
		r.inBody = true
	case "sldNum", "dt", "ftr", "hdr", "sldImg":
		r.omitted = true
	}
}

func (r *slideReader) finish(name string) {
	switch name {
	case "p":
		r.paragraph(r.level, r.mark)
	case "r":
		r.endScript()
	case "t":
		r.inText = false
	case "tc":
		r.closeCell()
	case "tr":
		r.closeRow()
	case "tbl":
		r.closeTable()
	case "sp", "graphicFrame", "pt":
		r.omitted, r.inBody, r.inTitle = false, false, false
	}
}
