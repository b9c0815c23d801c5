package office

import (
	"context"
	"encoding/xml"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// readODS returns the sheets of a file as sections, with the texts of cells as they are shown.
func readODS(ctx context.Context, raw []byte) (extract.Document, error) {
	a, styles, title, err := openODF(ctx, extract.ODS, raw)
	if err != nil {
		return extract.Document{}, err
	}
	r := &odsReader{styles: styles}
	if err := a.each(contentPart, r.token); err != nil && r.open {
		r.out.write(&r.sheet, err)
	} else if err != nil {
		r.out.why = append(r.out.why, err.Error())
	}
	return r.out.document(ctx, title)
}

// An odsReader reads the sheets of a file that are shown.
type odsReader struct {
	out    spreadsheet
	styles *odfStyleSet
	body   bool
	skip   int // open elements in one that is left out

	open        bool // in a sheet
	sheet       sheet
	row, column int // the current ones, from 0
	rows        int // how often the current row is repeated
	hiddenRow   bool
	hidden      [maxColumns]bool
	cells       []string

	columns int // how often the current cell is repeated
	text    strings.Builder
	inText  int // open paragraphs
}

func (r *odsReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if r.skip > 0 || r.leftOut(t) {
			r.skip++
			return nil
		}
		if !r.body {
			r.styles.start(t)
			r.body = t.Name.Local == "spreadsheet"
			return nil
		}
		r.start(t)
	case xml.EndElement:
		if r.skip > 0 {
			r.skip--
			return nil
		}
		return r.finish(t.Name.Local)
	case xml.CharData:
		if r.inText > 0 && r.skip == 0 {
			r.text.Write(t)
		}
	}
	if r.text.Len() > extract.MaxText {
		return extract.ErrTooMuchText
	}
	return nil
}

// leftOut reports whether an element is not shown as text of a cell.
func (r *odsReader) leftOut(e xml.StartElement) bool {
	if !r.body {
		return false
	}
	switch e.Name.Local {
	case "tracked-changes", "annotation", "shapes", "frame", "forms", "named-expressions", "database-ranges", "content-validations", "scenario":
		return true
	case "table":
		return r.open || r.styles.of("table", value(e, "style-name")).hidden
	case "span":
		return r.styles.of("text", value(e, "style-name")).hidden
	}
	return false
}

func (r *odsReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "table":
		r.open, r.sheet, r.row, r.column = true, sheet{name: value(e, "name")}, 0, 0
		r.hidden = [maxColumns]bool{}
	case "table-column":
		n, hidden := repeats(e, "number-columns-repeated"), !shown(e)
		for i := r.column; hidden && i < min(r.column+n, maxColumns); i++ {
			r.hidden[i] = true
		}
		r.column += n
	case "table-row":
		r.column, r.cells = 0, r.cells[:0]
		r.rows, r.hiddenRow = repeats(e, "number-rows-repeated"), !shown(e)
	case "table-cell", "covered-table-cell":
		r.columns = repeats(e, "number-columns-repeated")
		r.text.Reset()
		r.merge(e)
	case "p":
		if r.text.Len() > 0 {
			r.text.WriteByte('\n')
		}
		r.inText++
	case "s", "tab":
		r.text.WriteByte(' ')
	case "line-break":
		r.text.WriteByte('\n')
	}
}

// shown reports whether a row or column is neither hidden nor filtered out.
func shown(e xml.StartElement) bool {
	visibility := value(e, "visibility")
	return visibility != "collapse" && visibility != "filter"
}

// repeats returns the number in an attribute, at least 1.
func repeats(e xml.StartElement, name string) int {
	const most = 1 << 20 // rows of a sheet
	n, _ := strconv.Atoi(value(e, name))
	return min(max(n, 1), most)
}

func (r *odsReader) merge(e xml.StartElement) {
	rows, columns := repeats(e, "number-rows-spanned"), repeats(e, "number-columns-spanned")
	if (rows > 1 || columns > 1) && len(r.sheet.merges) < maxMerges {
		r.sheet.merges = append(r.sheet.merges, merge{r.row, r.column, r.row + rows - 1, r.column + columns - 1})
	}
}

func (r *odsReader) finish(name string) error {
	switch name {
	case "p":
		r.inText--
	case "table-cell", "covered-table-cell":
		r.cell()
	case "table-row":
		return r.endRow()
	case "table":
		r.open = false
		if !r.out.write(&r.sheet, nil) {
			return errStopped
		}
	}
	return nil
}

// errStopped ends reading after a sheet was read in part, which is reported with the sheet.
var errStopped = extract.Brokenf("no further sheets are read")

// cell adds the current cell to the row, as often as it is repeated, if it is shown.
func (r *odsReader) cell() {
	text, first := r.text.String(), r.column
	r.column = min(r.column+r.columns, maxColumns)
	if strings.TrimSpace(text) == "" || r.hiddenRow {
		return
	}
	for len(r.cells) < r.column {
		r.cells = append(r.cells, "")
	}
	for i := first; i < r.column; i++ {
		if !r.hidden[i] {
			r.cells[i] = text
		}
	}
}

// endRow adds the current row, as often as it is repeated, if it is shown.
func (r *odsReader) endRow() error {
	at := r.row
	r.row += r.rows
	if r.hiddenRow || len(r.cells) == 0 {
		return nil
	}
	for i := range r.rows {
		if err := r.out.add(&r.sheet, at+i, r.cells); err != nil {
			return err
		}
	}
	return nil
}
