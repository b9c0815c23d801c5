package office

import (
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

	span        int  // columns that the current cell covers
	above, left bool // the current cell is covered by the one above it, or to its left
}

// openTable begins a table. Tables in cells are part of their text.
func (f *flow) openTable() {
	if f.tables++; f.tables == 1 {
		f.table = table{}
	}
}

func (f *flow) openRow() {
	f.cells++
	if f.tables == 1 {
		f.table.row, f.table.cells, f.table.hidden = nil, 0, false
	}
}

func (f *flow) openCell() {
	f.cells++
	if f.tables == 1 {
		f.cell.Reset()
		f.table.span, f.table.above, f.table.left = 1, false, false
	}
}

func (f *flow) closeCell() {
	if f.tables == 1 {
		f.take()
		f.table.add(strings.Join(strings.Fields(f.cell.String()), " "))
		f.cells += f.table.span - 1
		f.cell.Reset()
	}
}

func (f *flow) closeRow() {
	if f.tables == 1 {
		f.table.endRow()
	}
}

func (f *flow) closeTable() {
	if f.tables = max(0, f.tables-1); f.tables == 0 {
		f.writeTable(f.table.rows)
		f.table = table{}
	}
}

// add adds a cell to the row, in each column that it covers.
func (t *table) add(text string) {
	at, last := len(t.row), len(t.rows)-1
	covered := text == "" && (t.above || t.left)
	switch {
	case covered && t.above && last >= 0 && at < len(t.rows[last]):
		text = t.rows[last][at]
	case covered && t.left && at > 0:
		text = t.row[at-1]
	}
	if !t.left {
		t.cells++
	}
	for range max(t.span, 1) {
		t.row = append(t.row, text)
		t.size += len(text)
	}
}

// endRow adds the row. A cell that is alone in it is a title and is not repeated.
func (t *table) endRow() {
	if t.cells == 1 && len(t.row) > 0 {
		for i := len(t.row) - 1; i > 0 && t.row[i] == t.row[i-1]; i-- {
			t.row = t.row[:i]
		}
	}
	if !t.hidden {
		t.rows = append(t.rows, t.row)
	}
	t.row = nil
}

// writeTable writes a table. A table of one column is written as text: it is used as a frame.
func (f *flow) writeTable(rows [][]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	if width > 1 {
		f.block(block{text: strings.TrimRight(extract.Table(rows), "\n")})
		return
	}
	for _, row := range rows {
		if text := strings.Join(row, ""); text != "" {
			f.block(block{text: extract.Literal(text)})
		}
	}
}
