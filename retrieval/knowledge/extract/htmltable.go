package extract

import (
	"strconv"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// table writes a table of data. It returns false for a table used as a layout: one that contains
// tables, headings or lists, or has a single column.
func (r *renderer) table(n *html.Node) bool {
	s := r.page.stats[n]
	if s == nil || s.tables > 1 || s.blocks > 0 {
		return false
	}
	g := grid{}
	if !r.rows(n, &g) || g.width < 2 {
		return false
	}
	if g.size > MaxText {
		r.full = true
		return true
	}
	for c := range n.ChildNodes() {
		if c.DataAtom == atom.Caption {
			if text := oneLine(r.visible(c)); text != "" {
				r.lines(markdownLiteral(text))
			}
			break
		}
	}
	r.lines(markdownTable(g.rows))
	return true
}

// rows adds the rows below n to g. It returns false if a cell is too long to be data.
func (r *renderer) rows(n *html.Node, g *grid) bool {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type == html.ElementNode && hidden(c):
		case c.DataAtom == atom.Tr:
			if !r.row(c, g) {
				return false
			}
		case c.DataAtom != atom.Caption && !r.rows(c, g):
			return false
		}
		if c.DataAtom == atom.Thead || c.DataAtom == atom.Tbody || c.DataAtom == atom.Tfoot {
			g.endGroup()
		}
	}
	return true
}

// row adds a row to g. It returns false if a cell is too long to be data.
func (r *renderer) row(n *html.Node, g *grid) bool {
	var cells []gridCell
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom != atom.Td && c.DataAtom != atom.Th || hidden(c) {
			continue
		}
		if s := r.page.stats[c]; s != nil && s.text > maxCell {
			return false
		}
		columns, _ := strconv.Atoi(attr(c, "colspan"))
		rows, err := strconv.Atoi(attr(c, "rowspan"))
		if err == nil && rows == 0 { // to the end of the row group
			rows = maxRows
		}
		cells = append(cells, gridCell{text: oneLine(r.visible(c)), columns: columns, rows: rows})
	}
	g.add(cells)
	return true
}

// maxRows is the limit on a cell's rowspan (HTML Living Standard, 4.9.11).
const maxRows = 65534

// A gridCell is a cell that covers one or more columns and rows.
type gridCell struct {
	text          string
	columns, rows int // less than 1 is 1
}

// A grid lays cells out in rows and repeats a cell in each place that it covers.
type grid struct {
	rows  [][]string
	width int
	size  int        // bytes of all places
	below []gridCell // by column: what covers it in the next rows; rows counts them
}

// add lays out a row. A cell that is alone in its row is a title and is not repeated in it.
func (g *grid) add(cells []gridCell) {
	var row []string
	next := make([]gridCell, 0, len(g.below))
	put := func(c gridCell) {
		row = append(row, c.text)
		g.size += len(c.text) + len(" | ")
		c.rows--
		next = append(next, c)
	}
	covered := func() {
		for len(row) < len(g.below) && len(row) < maxColumns && g.below[len(row)].rows > 0 {
			put(g.below[len(row)])
		}
	}
	for _, c := range cells {
		covered()
		span := min(max(c.columns, 1), maxColumns)
		if len(cells) == 1 && len(row) == 0 {
			span = 1
		}
		c.rows = min(c.rows, maxRows)
		for range min(span, maxColumns-len(row)) {
			put(c)
		}
	}
	covered()
	g.rows, g.width, g.below = append(g.rows, row), max(g.width, len(row)), next
}

// endGroup ends all cells that would cover further rows.
func (g *grid) endGroup() { g.below = nil }
