package office

import (
	"bytes"
	"context"
	"encoding/xml"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// readODF returns a text or a presentation. Texts have headings, lists, tables, and notes in brackets;
// a presentation has a section for each slide.
func readODF(ctx context.Context, f extract.Format, raw []byte) (extract.Document, error) {
	a, styles, title, err := openODF(ctx, f, raw)
	if err != nil {
		return extract.Document{}, err
	}
	r := &odfReader{styles: styles}
	err = a.each(contentPart, r.token)
	if f == extract.ODP {
		return r.document(title, err)
	}
	if err != nil {
		return extract.Document{}, err
	}
	text := r.flow.markdown(title)
	if strings.TrimSpace(text) == "" {
		return extract.Document{}, errNoText
	}
	return extract.Document{Name: title, Text: text, Form: extract.Markdown}, nil
}

// openODF opens an OpenDocument file and reads its common styles and title.
func openODF(ctx context.Context, f extract.Format, raw []byte) (a *archive, styles *odfStyleSet, title string, err error) {
	a, err = open(ctx, f, raw)
	if err != nil {
		return nil, nil, "", err
	}
	if a.files[contentPart] == nil {
		return nil, nil, "", a.broken()
	}
	var meta titleReader
	locked := false
	styles = newODFStyles()
	for _, part := range []struct {
		name string
		read func(xml.Token) error
	}{{odfStyles, styles.token}, {metaPart, meta.token}} {
		// An encrypted part is no XML.
		if err = a.each(part.name, part.read); err != nil {
			break
		}
	}
	if manifest := a.each(manifestPart, func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		locked = locked || ok && e.Name.Local == "encryption-data"
		return nil
	}); manifest == nil && locked {
		return nil, nil, "", errLocked
	}
	return a, styles, strings.Join(strings.Fields(meta.text), " "), err
}

// An odfReader reads the body of a text or presentation.
type odfReader struct {
	slides
	styles *odfStyleSet
	body   bool
	skip   int // open elements in one that is left out

	level  int       // of the current heading; see style
	lists  []odfList // open lists
	spans  []string  // scripts of open spans
	covers int       // columns that the last cell covers, other than its own
	inNote bool
	kind   string // of the current note
	note   flow   // its text
}

// An odfList is an open list.
type odfList struct {
	style  string
	count  int
	marked bool // the mark of the current item was written
	plain  bool // the current item has none
}

func (r *odfReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if r.skip > 0 || r.leftOut(t) {
			r.skip++
			return nil
		}
		if !r.body {
			r.styles.start(t)
			r.body = t.Name.Local == "body"
			return nil
		}
		r.start(t)
	case xml.EndElement:
		if r.skip > 0 {
			r.skip--
			return nil
		}
		if r.body {
			r.finish(t.Name.Local)
		}
	case xml.CharData:
		if r.body && r.skip == 0 && (len(t) > 0 && len(bytes.TrimSpace(t)) > 0 || r.inParagraph()) {
			r.to().write(t)
		}
	}
	if err := r.note.check(); err != nil {
		return err
	}
	return r.check()
}

// inParagraph reports whether there is text that white space may separate.
func (r *odfReader) inParagraph() bool { return r.to().text.Len()+r.to().raised.Len() > 0 }

// to returns what text is written to.
func (r *odfReader) to() *flow {
	if r.inNote {
		return &r.note
	}
	return &r.flow
}

// leftOut reports whether an element is not shown as text.
func (r *odfReader) leftOut(e xml.StartElement) bool {
	if !r.body {
		return false
	}
	switch e.Name.Local {
	case "tracked-changes", "annotation", "note-citation", "ruby-text", "forms", "scripts", "desc", "event-listeners", "shapes",
		"variable-decls", "sequence-decls", "user-field-decls", "binary-data", "settings", "thumbnail", "page-thumbnail":
		return true
	case "title":
		return strings.Contains(e.Name.Space, "svg")
	case "section":
		return value(e, "display") == "none"
	case "hidden-text", "hidden-paragraph":
		return value(e, "is-hidden") == "true"
	case "span":
		return r.styles.of("text", value(e, "style-name")).hidden
	case "p", "h":
		return r.styles.of("paragraph", value(e, "style-name")).hidden
	case "table":
		return r.styles.of("table", value(e, "style-name")).hidden
	case "page":
		if r.styles.of("drawing-page", value(e, "style-name")).hidden {
			r.count++
			return true
		}
	case "frame":
		switch value(e, "class") {
		case "page-number", "header", "footer", "date-time":
			return true
		}
	}
	return false
}

func (r *odfReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "p", "h":
		r.paragraph()
		r.setLevel(e)
	case "span":
		r.to().endScript()
		r.spans = append(r.spans, r.styles.of("text", value(e, "style-name")).script)
		r.to().script = r.spans[len(r.spans)-1]
	case "s", "tab":
		r.to().write([]byte{' '})
	case "line-break":
		r.to().write([]byte{'\n'})
	case "note":
		r.inNote, r.kind, r.note = true, value(e, "note-class"), flow{}
	case "list":
		r.openList(e)
	case "list-item":
		r.openItem(e)
	case "list-header":
		if n := len(r.lists); n > 0 {
			r.lists[n-1].plain = true
		}
	case "table":
		r.paragraph()
		r.openTable()
	case "table-row":
		r.openRow()
		if r.tables == 1 {
			r.covers, r.table.hidden = 0, value(e, "visibility") == "collapse"
		}
	case "table-cell", "covered-table-cell":
		r.openCell()
		if r.tables == 1 {
			r.cover(e)
		}
	case "page":
		r.begin()

	case "frame":
		r.inTitle = value(e, "class") == "title" && !r.inNotes
	case "notes":
		r.inNotes = true
	}
}

// setLevel sets the level of a heading.
func (r *odfReader) setLevel(e xml.StartElement) {
	r.level = 0
	if e.Name.Local == "h" {
		n, _ := strconv.Atoi(value(e, "outline-level"))
		r.level = min(max(n, 1), 9)
	} else if r.styles.of("paragraph", value(e, "style-name")).title {
		r.level = titleLevel
	}
}

// cover sets which cells a cell covers, or which one covers it.
func (r *odfReader) cover(e xml.StartElement) {
	n, _ := strconv.Atoi(value(e, "number-columns-repeated"))
	r.table.span = min(max(n, 1), maxSpan)
	if e.Name.Local == "table-cell" {
		n, _ := strconv.Atoi(value(e, "number-columns-spanned"))
		r.covers = max(n, 1) - 1
		return
	}
	r.table.left, r.table.above = r.covers > 0, r.covers <= 0
	r.covers -= r.table.span
}

func (r *odfReader) openList(e xml.StartElement) {
	r.paragraph()
	style := value(e, "style-name")
	if n := len(r.lists); style == "" && n > 0 {
		style = r.lists[n-1].style
	}
	r.lists = append(r.lists, odfList{style: style})
	if n := len(r.lists); r.styles.lists[style] != nil {
		r.lists[n-1].count = r.levelOf(n-1).start - 1
	}
}

// levelOf returns how the items of open list i are marked.
func (r *odfReader) levelOf(i int) level {
	if k := r.styles.lists[r.lists[i].style]; k != nil {
		return k.levels[min(i, maxLevels-1)]
	}
	return level{format: "bullet"}
}

func (r *odfReader) openItem(e xml.StartElement) {
	r.paragraph()
	n := len(r.lists)
	if n == 0 {
		return
	}
	l := &r.lists[n-1]
	l.count, l.marked, l.plain = l.count+1, false, false
	if start, err := strconv.Atoi(value(e, "start-value")); err == nil {
		l.count = start
	}
}

// mark returns the mark of the current item, once; "" if it has none.
func (r *odfReader) mark() string {
	n := len(r.lists)
	if n == 0 || r.lists[n-1].plain {
		return ""
	}
	l := &r.lists[n-1]
	if l.marked {
		return ""
	}
	l.marked = true
	switch at := r.levelOf(n - 1); at.format {
	case "none":
		return ""
	case "bullet", "":
		return bullet
	default:
		return strings.TrimSpace(strings.Replace(at.text, "%", inFormat(at.format, l.count), 1))
	}
}

// paragraph writes the completed paragraph.
func (r *odfReader) paragraph() {
	if r.inNote {
		r.note.endScript()
		r.note.text.WriteByte(' ')
		return
	}
	depth := len(r.lists) - 1
	switch {
	case r.level != 0 && r.tables == 0:
		if text := r.take(); text != "" {
			r.heading(r.level, text)
		}
	case r.inParagraph() && depth >= 0 && r.tables == 0 && !r.inTitle && !r.inNotes:
		continued := r.lists[depth].marked
		if mark := r.mark(); mark != "" || continued {
			r.slides.paragraph(depth, mark)
			if mark == "" {
				last := &r.blocks[len(r.blocks)-1]
				last.text = strings.Repeat("  ", min(depth, maxListDepth)+1) + last.text
			}
			break
		}
		r.slides.paragraph(depth, "")
	default:
		r.slides.paragraph(0, "")
	}
	r.level = 0
}

func (r *odfReader) finish(name string) {
	switch name {
	case "p", "h":
		r.paragraph()
	case "span":
		r.to().endScript()
		r.spans = r.spans[:max(0, len(r.spans)-1)]
		if n := len(r.spans); n > 0 {
			r.to().script = r.spans[n-1]
		}
	case "note":
		r.endNote()
	case "list":
		r.paragraph()
		r.lists = r.lists[:max(0, len(r.lists)-1)]
	case "table-cell", "covered-table-cell":
		r.closeCell()
	case "table-row":
		r.closeRow()
	case "table":
		r.closeTable()
	case "frame":
		r.inTitle = false
	case "notes":
		r.inNotes = false
	case "page":
		r.end()
	}
}

// endNote writes a note at the place of its mark.
func (r *odfReader) endNote() {
	r.inNote = false
	text := strings.Join(strings.Fields(r.note.text.String()), " ")
	r.note = flow{}
	kind := "footnote"
	if r.kind == "endnote" {
		kind = r.kind
	}
	if text != "" {
		r.text.WriteString(" [" + kind + ": " + text + "]")
	}
}
