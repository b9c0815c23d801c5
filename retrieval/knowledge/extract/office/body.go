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
	run        run
	raised     strings.Builder // text of the current run if it is not on the line
	inText     bool
	properties int // open elements that contain only formatting
	skipped    int // open elements whose text is left out

	notes map[string]string // texts of footnotes and endnotes, by their kind and id

	tables int // open tables
	table  table
	cell   strings.Builder
	cells  int // in all tables
}

// A run is the properties of a piece of a paragraph.
type run struct {
	hidden, shown bool   // shown overrides the style of the paragraph
	script        string // superscript, subscript or else on the line
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
		switch {
		case !w.inText || w.skipped > 0 || w.hidden():
		case w.run.script == "superscript" || w.run.script == "subscript":
			w.raised.Write(t)
		default:
			w.text.Write(t)
		}
	}
	if w.written+w.table.size+w.text.Len()+w.raised.Len()+w.cell.Len() > extract.MaxText {
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
	case "r":
		w.run = run{}
	case "rStyle", "vanish", "vertAlign":
		w.format(e)
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
	case "footnoteReference", "endnoteReference":
		w.note(strings.TrimSuffix(e.Name.Local, "Reference"), value(e, "id"))
	case "tbl", "tr", "tc", "gridBefore", "gridSpan", "vMerge", "hidden":
		w.startTable(e)
	default:
		if revision(e.Name.Local) {
			w.skipped++
		}
	}
}

// format reads a property of a run. Those of the mark at the end of a paragraph are in pPr.
func (w *writer) format(e xml.StartElement) {
	if w.properties != 1 {
		return
	}
	switch e.Name.Local {
	case "rStyle":
		w.run.hidden = w.styles.of(value(e, "val")).hidden // it comes first
	case "vanish":
		w.run.hidden, w.run.shown = on(e), !on(e)
	case "vertAlign":
		w.run.script = value(e, "val")
	}
}

// on reports whether a property that is true or false is true.
func on(e xml.StartElement) bool {
	switch value(e, "val") {
	case "0", "false", "off":
		return false
	}
	return true
}

func (w *writer) hidden() bool { return w.run.hidden || w.style.hidden && !w.run.shown }

// note writes the text of a footnote or endnote at the place of its reference.
func (w *writer) note(kind, id string) {
	if text := w.notes[kind+" "+id]; text != "" && !w.hidden() {
		w.text.WriteString(" [" + kind + ": " + text + "]")
	}
}

// endRun writes raised or lowered text so that it stays distinct from the text before it.
func (w *writer) endRun() {
	text := w.raised.String()
	w.raised.Reset()
	if w.run.script == "subscript" {
		text = extract.Subscript(text)
	} else {
		text = extract.Superscript(w.text.String(), text)
	}
	w.text.WriteString(text)
	w.run = run{}
}

// revision reports whether the text of an element is left out: of what was deleted or moved away in
// a tracked change, of properties before one, and of an older form of the adjacent content.
func revision(name string) bool {
	switch name {
	case "del", "moveFrom", "Fallback", "pPrChange", "rPrChange", "tblPrChange", "trPrChange", "tcPrChange", "sectPrChange":
		return true
	}
	return false
}

// character writes a character that is represented by an element.
func (w *writer) character(c byte) {
	if w.properties == 0 && !w.hidden() {
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
	case "r":
		w.endRun()
	case "t":
		w.inText = false
	case "tc", "tr", "tbl":
		w.endTable(name)
	default:
		if revision(name) {
			w.skipped = max(0, w.skipped-1)
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
