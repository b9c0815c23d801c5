package office

import (
	"encoding/xml"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// A writer turns the tokens of a document's body into blocks of Markdown. It counts open
// elements rather than recursing, so deep nesting costs nothing.
type writer struct {
	styles    *styles
	numbering *numbering
	blocks    []block
	written   int // bytes of their texts

	text       strings.Builder // of the present paragraph
	style      style           // its own properties win over those of its style
	inText     bool
	properties int // open elements that hold formatting only
	skipped    int // open elements whose text is left out

	tables int // open tables
	rows   [][]string
	cell   strings.Builder
	cells  int // of all tables
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

// How many parts a document may have; each takes memory even where it holds no text.
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
	fallback  = "Fallback"  // an older form of the content beside it
	former    = "pPrChange" // the properties before a tracked change
)

func revision(name string) bool {
	return name == deleted || name == movedAway || name == fallback || name == former
}

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

// paragraph writes the paragraph that has ended.
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

// item writes an item of a list with its bullet or number.
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

// markdown returns the text. name is the title in the document's properties: the only
// heading of level 1 is the title if nothing else is, and otherwise the headings of level 1
// are below it, and so on.
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
		if i > 0 && (!b.item || !w.blocks[i-1].item) { // items follow each other without a blank line
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

// table writes the table that has ended. A table of one column is written as text: it is
// used as a frame.
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
