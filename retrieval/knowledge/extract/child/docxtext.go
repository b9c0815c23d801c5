package child

import (
	"encoding/xml"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// A writer turns the tokens of a document's body into Markdown. It counts open elements
// rather than recursing, so deep nesting costs nothing.
type writer struct {
	levels map[string]int // of headings, by style
	out    strings.Builder

	text       strings.Builder // of the present paragraph
	level      int             // of the heading that the paragraph is; 0 if it is none
	indent     int             // of the list item that it is, from 1; 0 if it is none
	inText     bool
	properties int // open elements that hold formatting only
	skipped    int // open elements whose text is left out
	wasItem    bool

	tables int // open tables
	rows   [][]string
	cell   strings.Builder
}

// maxListDepth is the depth up to which nested lists are indented.
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
		return extract.ErrTooMuchText
	}
	return nil
}

func (w *writer) start(e xml.StartElement) {
	if w.skipped > 0 && !revision(e.Name.Local) {
		return
	}
	switch e.Name.Local {
	case "p":
		w.paragraph() // a text box is inside a paragraph
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
	case "tab":
		w.character(' ')
	case "br", "cr":
		w.character('\n')
	case "noBreakHyphen":
		w.character('-')
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

// Elements whose text is left out.
const (
	deleted   = "del"
	movedAway = "moveFrom"
	fallback  = "Fallback" // an older form of the content beside it
)

func revision(name string) bool { return name == deleted || name == movedAway || name == fallback }

// character writes a character that has an element of its own.
func (w *writer) character(c byte) {
	if w.properties == 0 {
		w.text.WriteByte(c)
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

// paragraph writes the paragraph that has ended.
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

// block writes a block after a blank line; list items follow each other without one.
func (w *writer) block(text string, item bool) {
	if w.out.Len() > 0 && (!item || !w.wasItem) {
		w.out.WriteByte('\n')
	}
	w.out.WriteString(text + "\n")
	w.wasItem = item
}

// table writes the table that has ended. A table of one column is written as text: it is
// used as a frame.
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
