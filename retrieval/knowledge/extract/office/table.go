package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// maxSpan is the limit on the columns that a cell covers.
const maxSpan = 64

// A table is the outermost table that is being read.
type table struct {
	rows [][]string
	size int // bytes of all cells

	row    []string // being read
	cells  int      // its cells
	hidden bool     // it is not shown
	span   int      // columns that the current cell covers
	merged bool     // the current cell continues the one above it
}

// startTable handles the start of an element of a table. Tables in cells are part of their text.
func (w *writer) startTable(e xml.StartElement) {
	t := &w.table
	switch e.Name.Local {
	case "tbl":
		if w.tables++; w.tables == 1 {
			*t = table{}
		}
		return
	case "tr", "tc":
		w.cells++
	}
	if w.tables != 1 {
		return
	}
	switch e.Name.Local {
	case "tr":
		t.row, t.cells, t.hidden = nil, 0, false
	case "hidden":
		t.hidden = on(e)
	case "gridBefore":
		n, _ := strconv.Atoi(value(e, "val"))
		t.row = make([]string, min(max(n, 0), maxSpan))
	case "tc":
		w.cell.Reset()
		t.span, t.merged = 1, false
	case "gridSpan":
		n, _ := strconv.Atoi(value(e, "val"))
		t.span = min(max(n, 1), maxSpan)
	case "vMerge":
		t.merged = value(e, "val") != "restart"
	}
}

// endTable handles the end of an element of a table.
func (w *writer) endTable(name string) {
	switch {
	case name == "tbl":
		if w.tables = max(0, w.tables-1); w.tables == 0 {
			w.writeTable(w.table.rows)
			w.table = table{}
		}
	case w.tables != 1:
	case name == "tc":
		w.table.add(strings.Join(strings.Fields(w.cell.String()), " "))
		w.cells += w.table.span - 1
		w.cell.Reset()
	case name == "tr":
		w.table.endRow()
	}
}

// add adds a cell to the row, in each column that it covers.
func (t *table) add(text string) {
	at := len(t.row)
	if last := len(t.rows) - 1; t.merged && text == "" && last >= 0 && at < len(t.rows[last]) {
		text = t.rows[last][at]
	}
	t.cells++
	for range max(t.span, 1) {
		t.row = append(t.row, text)
		t.size += len(text)
	}
}

// endRow adds the row. A cell that is alone in it is a title and is not repeated.
func (t *table) endRow() {
	if t.cells == 1 && len(t.row) > 0 {
		t.row = t.row[:len(t.row)-t.span+1]
	}
	if !t.hidden {
		t.rows = append(t.rows, t.row)
	}
	t.row = nil
}

// writeTable writes a table. A table of one column is written as text: it is used as a frame.
func (w *writer) writeTable(rows [][]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	if width > 1 {
		w.block(block{text: strings.TrimRight(extract.Table(rows), "\n")})
		return
	}
	for _, row := range rows {
		if text := strings.Join(row, ""); text != "" {
			w.block(block{text: extract.Literal(text)})
		}
	}
}
