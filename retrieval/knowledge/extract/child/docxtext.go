package child

import (
	"encoding/xml"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// A writer writes the body of a document as Markdown while it is read. Nothing
// nests in it but by counting, so that depth costs nothing.
type writer struct {
	levels map[string]int // of headings, by style
	out    strings.Builder

	text       strings.Builder // of the paragraph
	level      int             // of a heading; 0 is none
	indent     int             // of an item, from 1; 0 is none
	inText     bool
	properties int // elements open that only say how things look
	skipped    int // elements open that are not part of the text
	wasItem    bool

	tables int // open
	rows   [][]string
	cell   strings.Builder
}

// maxListDepth is how deep lists are shown.
const maxListDepth = 6

func (w *writer) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		w.start(t)
	case xml.EndElement:
		w.end(t.Name.Local)
	case xml.CharData:
		if w.inText && w.skipped == 0 {
			w.text.Write(t)
		}
	}
	if w.out.Len()+w.text.Len()+w.cell.Len() > extract.MaxText {
		return errTooMuch
	}
	return nil
}

func (w *writer) start(e xml.StartElement) {
	if w.skipped > 0 && !revision(e.Name.Local) {
		return
	}
	switch e.Name.Local {
	case "p":
		w.paragraph() // a text box stands within one
		w.level, w.indent = 0, 0
	case "pPr", "rPr", "tblPr", "sectPr":
		w.properties++
	case "pStyle":
		w.level = w.levels[value(e, "val")]
	case "outlineLvl":
		if n, err := strconv.Atoi(value(e, "val")); err == nil && n >= 0 && n < 9 {
			w.level = min(n+1, 6)
		}
	case "numPr":
		w.indent = max(w.indent, 1)
	case "ilvl":
		if n, err := strconv.Atoi(value(e, "val")); err == nil && n >= 0 {
			w.indent = min(n+1, maxListDepth)
		}
	case "t":
		w.inText = true
	case "tab", "br", "cr", "noBreakHyphen":
		w.special(e.Name.Local)
	case deleted, movedAway, fallback:
		w.skipped++
	case "tbl":
		if w.tables++; w.tables == 1 {
			w.rows = nil
		}
	case "tr":
		if w.tables == 1 {
			w.rows = append(w.rows, nil)
		}
	case "tc":
		if w.tables == 1 {
			w.cell.Reset()
		}
	}
}

// Elements whose text is not, or no longer, part of the document.
const (
	deleted   = "del"
	movedAway = "moveFrom"
	fallback  = "Fallback" // of what was written before
)

func revision(name string) bool { return name == deleted || name == movedAway || name == fallback }

func (w *writer) special(name string) {
	if w.properties > 0 || w.skipped > 0 {
		return
	}
	switch name {
	case "tab":
		w.text.WriteByte(' ')
	case "noBreakHyphen":
		w.text.WriteByte('-')
	default:
		w.text.WriteByte('\n')
	}
}

func (w *writer) end(name string) {
	if w.skipped > 0 && !revision(name) {
		return
	}
	switch name {
	case "p":
		w.paragraph()
	case "pPr", "rPr", "tblPr", "sectPr":
		w.properties = max(0, w.properties-1)
	case "t":
		w.inText = false
	case deleted, movedAway, fallback:
		w.skipped = max(0, w.skipped-1)
	case "tc":
		if w.tables == 1 && len(w.rows) > 0 {
			last := len(w.rows) - 1
			w.rows[last] = append(w.rows[last], strings.Join(strings.Fields(w.cell.String()), " "))
			w.cell.Reset()
		}
	case "tbl":
		if w.tables = max(0, w.tables-1); w.tables == 0 {
			w.table()
		}
	}
}

// paragraph writes the paragraph that ends.
func (w *writer) paragraph() {
	text := strings.TrimSpace(w.text.String())
	w.text.Reset()
	switch {
	case text == "":
	case w.tables > 0:
		w.cell.WriteString(text + " ")
	case w.level > 0:
		w.block(strings.Repeat("#", w.level)+" "+strings.Join(strings.Fields(text), " "), false)
	case w.indent > 0:
		prefix := strings.Repeat("  ", w.indent-1)
		w.block(prefix+"- "+strings.ReplaceAll(text, "\n", "\n"+prefix+"  "), true)
	default:
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			lines[i] = extract.Literal(strings.TrimSpace(l))
		}
		w.block(strings.Join(lines, "\n"), false)
	}
}

// block writes a block; items of a list follow each other line by line.
func (w *writer) block(text string, item bool) {
	if w.out.Len() > 0 && (!item || !w.wasItem) {
		w.out.WriteByte('\n')
	}
	w.out.WriteString(text + "\n")
	w.wasItem = item
}

// table writes the table that ends. One of a single column is a frame.
func (w *writer) table() {
	width := 0
	for _, row := range w.rows {
		width = max(width, len(row))
	}
	if width > 1 {
		w.block(strings.TrimRight(extract.Table(w.rows), "\n"), false)
	} else {
		for _, row := range w.rows {
			if text := strings.Join(row, ""); text != "" {
				w.block(extract.Literal(text), false)
			}
		}
	}
	w.rows = nil
}
