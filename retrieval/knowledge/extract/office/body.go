package office

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// A writer converts the tokens of a document's body to Markdown blocks. It counts open elements
// instead of recursing, so deep nesting costs nothing.
type writer struct {
	flow
	styles    *styles
	numbering *numbering

	style      style // own properties take precedence over those of its style
	run        run
	inText     bool
	properties int // open elements that contain only formatting
	skipped    int // open elements whose text is left out

	notes map[string]string // texts of footnotes and endnotes, by their kind and id
}

// A run is the properties of a piece of a paragraph.
type run struct {
	hidden, shown bool // shown overrides the style of the paragraph
}

func (w *writer) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		w.start(t)
	case xml.EndElement:
		w.end(t.Name.Local)
	case xml.CharData:
		if w.inText && w.skipped == 0 && !w.hidden() {
			w.write(t)
		}
	}
	return w.check()
}

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
		w.script = value(e, "val")
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
		w.endScript()
		w.run = run{}
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
	text := w.take()
	switch {
	case text == "":
	case w.style.level != 0:
		if w.style.number.listed() {
			if mark := w.numbering.mark(w.style.number); mark != bullet && mark != "" {
				text = mark + " " + text
			}
		}
		w.heading(w.style.level, text)
	case w.style.number.listed():
		w.item(text)
	default:
		w.plain(text)
	}
}

// item writes a list item with its bullet or number.
func (w *writer) item(text string) {
	if mark := w.numbering.mark(w.style.number); mark != "" {
		w.flow.item(w.style.number.level, mark, text)
	} else {
		w.plain(text)
	}
}

// startTable handles the start of an element of a table.
func (w *writer) startTable(e xml.StartElement) {
	switch e.Name.Local {
	case "tbl":
		w.openTable()
	case "tr":
		w.openRow()
	case "tc":
		w.openCell()
	default:
		if w.tables == 1 { // tables in cells are text
			w.table.property(e)
		}
	}
}

// property reads a property of a row or cell.
func (t *table) property(e xml.StartElement) {
	switch e.Name.Local {
	case "hidden":
		t.hidden = on(e)
	case "gridBefore":
		t.row = make([]string, spanOf(e))
	case "gridSpan":
		t.span = spanOf(e)
	case "vMerge":
		t.above = value(e, "val") != "restart"
	}
}

// spanOf returns a number of columns, at least 1.
func spanOf(e xml.StartElement) int {
	n, _ := strconv.Atoi(value(e, "val"))
	return min(max(n, 1), maxSpan)
}

// endTable handles the end of an element of a table.
func (w *writer) endTable(name string) {
	switch name {
	case "tc":
		w.closeCell()
	case "tr":
		w.closeRow()
	case "tbl":
		w.closeTable()
	}
}
