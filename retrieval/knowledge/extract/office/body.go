package office

import (
	"encoding/xml"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// A writer converts the tokens of a document's body to Markdown blocks. It counts open elements
// instead of recursing, so deep nesting costs nothing.
type writer struct {
	styles    *styles
	numbering *numbering
	blocks    []block
	written   int // bytes of their texts

	text       strings.Builder // of the current paragraph
	style      style           // own properties take precedence over those of its style
	inText     bool
	properties int // open elements that contain only formatting
	skipped    int // open elements whose text is left out

	tables int // open tables
	rows   [][]string
	cell   strings.Builder
	cells  int // in all tables
}

// A block is a paragraph, heading, item or table.
type block struct {
	text  string
	level int // of a heading; see style
	item  bool
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
	if w.written+w.text.Len()+w.cell.Len() > extract.MaxText {
		return extract.ErrTooMuchText
	}
	if len(w.blocks) > maxBlocks || w.cells > maxCells {
		return errParts
	}
	return nil
}

// Limits on the parts of a document, which take memory even if they contain no text.
const (
	maxBlocks = 250_000
	maxCells  = 1_000_000
)

var errParts = extract.Brokenf("it has more than %d paragraphs or %d cells", maxBlocks, maxCells)

func (w *writer) start(e xml.StartElement) {
	if w.skipped > 0 && !revision(e.Name.Local) {
		return
	}
	switch e.Name.Local {
	case "p":
		w.paragraph() // a text box is inside a paragraph
		w.style = style{}
	case "pPr", "rPr", "tblPr", "sectPr":
		w.properties++
	case "pStyle":
		w.style = w.styles.of(value(e, "val")) // it comes first
	case "outlineLvl":
		w.style.set(value(e, "val"), 1)
	case "numId", "ilvl":
		w.style.number.token(e)
	case "t":
		w.inText = true
	case "tab":
		w.character(' ')
	case "br", "cr":
		w.character('\n')
	case "noBreakHyphen":
		w.character('-')
	case deleted, movedAway, fallback, former:
		w.skipped++
	case "tbl":
		if w.tables++; w.tables == 1 {
			w.rows = nil
		}
	case "tr":
		w.cells++
		if w.tables == 1 {
			w.rows = append(w.rows, nil)
		}
	case "tc":
		w.cells++
		if w.tables == 1 {
			w.cell.Reset()
		}
	}
}

// Elements whose text is left out.
const (
	deleted   = "del"
	movedAway = "moveFrom"
	fallback  = "Fallback"  // an older form of the adjacent content
	former    = "pPrChange" // the properties before a tracked change
)

func revision(name string) bool {
	return name == deleted || name == movedAway || name == fallback || name == former
}

// character writes a character that is represented by an element.
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
	case deleted, movedAway, fallback, former:
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

// paragraph writes the completed paragraph.
func (w *writer) paragraph() {
	text := strings.TrimSpace(w.text.String())
	w.text.Reset()
	switch {
	case text == "":
	case w.tables > 0:
		w.cell.WriteString(text + " ")
	case w.style.level != 0:
		words := strings.Join(strings.Fields(text), " ")
		if w.style.number.listed() {
			if mark := w.numbering.mark(w.style.number); mark != bullet && mark != "" {
				words = mark + " " + words
			}
		}
		w.block(block{text: words, level: w.style.level})
	case w.style.number.listed():
		w.item(text)
	default:
		w.plain(text)
	}
}

func (w *writer) plain(text string) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = extract.Literal(strings.TrimSpace(l))
	}
	w.block(block{text: strings.Join(lines, "\n")})
}

// item writes a list item with its bullet or number.
func (w *writer) item(text string) {
	mark := w.numbering.mark(w.style.number)
	if mark == "" {
		w.plain(text)
		return
	}
	indent := strings.Repeat("  ", min(w.style.number.level, maxListDepth))
	w.block(block{text: indent + mark + " " + strings.ReplaceAll(text, "\n", "\n"+indent+"  "), item: true})
}

func (w *writer) block(b block) {
	w.blocks = append(w.blocks, b)
	w.written += len(b.text)
}

// maxLevel is the level of the smallest headings in Markdown.
const maxLevel = 6

// markdown returns the text. name is the title in the document's properties. A single heading of
// level 1 is the title if there is no other title; otherwise all headings are moved one level
// down.
func (w *writer) markdown(name string) string {
	titles, tops, top := 0, 0, ""
	for _, b := range w.blocks {
		switch b.level {
		case titleLevel:
			titles++
		case 1:
			tops, top = tops+1, b.text
		}
	}
	below := 1
	if titles == 0 && tops == 1 && (name == "" || name == top) {
		below = 0
	}
	var out strings.Builder
	for i, b := range w.blocks {
		if i > 0 && (!b.item || !w.blocks[i-1].item) { // no blank line between items
			out.WriteByte('\n')
		}
		switch {
		case b.level == titleLevel:
			out.WriteString("# ")
		case b.level > 0:
			out.WriteString(strings.Repeat("#", min(b.level+below, maxLevel)) + " ")
		}
		out.WriteString(b.text + "\n")
	}
	return out.String()
}

// table writes the completed table. A table of one column is written as text: it is used as a
// frame.
func (w *writer) table() {
	width := 0
	for _, row := range w.rows {
		width = max(width, len(row))
	}
	if width > 1 {
		w.block(block{text: strings.TrimRight(extract.Table(w.rows), "\n")})
	} else {
		for _, row := range w.rows {
			if text := strings.Join(row, ""); text != "" {
				w.block(block{text: extract.Literal(text)})
			}
		}
	}
	w.rows = nil
}
