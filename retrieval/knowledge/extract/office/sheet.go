package office

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

const (
	// maxSheetCells is the limit on the cells of a file, up to the last of each row that is not empty.
	maxSheetCells = 2_000_000
	maxColumns    = 16_384 // of a sheet, as in Excel
	maxMerges     = 100_000
)

var errCells = extract.Brokenf("it has more than %d cells", maxSheetCells)

// A sheet is what is shown of a table in a spreadsheet.
type sheet struct {
	name   string
	rows   []sheetRow
	merges []merge
}

// A sheetRow is a row with a value.
type sheetRow struct {
	at    int
	cells []string
}

// A merge is a range of cells that are shown as the first of them. Its ends are included.
type merge struct{ top, left, bottom, right int }

// A spreadsheet collects the sheets of a file within the limits of a file.
type spreadsheet struct {
	out   strings.Builder
	cells int
	size  int      // bytes of all cells
	why   []string // what was not read
}

// add adds a row to a sheet if it has a value.
func (b *spreadsheet) add(s *sheet, at int, cells []string) error {
	for len(cells) > 0 && strings.TrimSpace(cells[len(cells)-1]) == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) == 0 {
		return nil
	}
	b.cells += len(cells)
	for _, cell := range cells {
		b.size += len(cell)
	}
	s.rows = append(s.rows, sheetRow{at, slices.Clone(cells)})
	return b.check()
}

func (b *spreadsheet) check() error {
	switch {
	case b.cells > maxSheetCells:
		return errCells
	case b.size > extract.MaxText:
		return extract.ErrTooMuchText
	}
	return nil
}

// write writes the rows of a sheet that were read as a section; err is why the others were not. It
// returns false if no further sheet can be read.
func (b *spreadsheet) write(s *sheet, err error) bool {
	if broken := (*extract.Broken)(nil); err == nil {
		err = b.fill(s)
	} else if !errors.As(err, &broken) {
		return false
	}
	w := extract.RowWriter{Separator: " |"}
	for _, row := range s.rows {
		if added := w.Add(row.cells); added != nil {
			err = added
			break
		}
	}
	if text := strings.TrimSpace(w.Text()); text != "" {
		if b.out.Len() > 0 {
			b.out.WriteByte('\n')
		}
		fmt.Fprintf(&b.out, "## %s\n\n%s\n", strings.Join(strings.Fields(s.name), " "), text)
	}
	if b.out.Len() > extract.MaxText && err == nil {
		err = extract.ErrTooMuchText
	}
	if err != nil {
		b.why = append(b.why, fmt.Sprintf("sheet %q: %v", s.name, err))
	}
	return err == nil
}

// fill repeats merged cells in each row and column that they cover. A cell that is alone in its row is
// a title and is not repeated in it.
func (b *spreadsheet) fill(s *sheet) error {
	width := 0
	for _, row := range s.rows {
		width = max(width, len(row.cells))
	}
	for _, m := range s.merges {
		first, found := slices.BinarySearchFunc(s.rows, m.top, func(r sheetRow, at int) int { return r.at - at })
		if !found || m.left >= len(s.rows[first].cells) {
			continue
		}
		text := s.rows[first].cells[m.left]
		if text == "" || m.top == m.bottom && alone(s.rows[first].cells) {
			continue
		}
		right := min(m.right, width-1)
		for i := first; i < len(s.rows) && s.rows[i].at <= m.bottom; i++ {
			row := &s.rows[i]
			if missing := right + 1 - len(row.cells); missing > 0 {
				row.cells = append(row.cells, make([]string, missing)...)
				b.cells += missing
			}
			for j := m.left; j <= right; j++ {
				row.cells[j] = text
				b.size += len(text)
			}
			if err := b.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// alone reports whether a row has one value.
func alone(cells []string) bool {
	values := 0
	for _, cell := range cells {
		if cell != "" {
			values++
		}
	}
	return values == 1
}

// document returns the document of all sheets.
func (b *spreadsheet) document(ctx context.Context, name string) (extract.Document, error) {
	if ctx.Err() != nil {
		return extract.Document{}, ctx.Err()
	}
	why := extract.Brokenf("%s", strings.Join(b.why, "; "))
	if b.out.Len() == 0 {
		if len(b.why) > 0 {
			return extract.Document{}, why
		}
		return extract.Document{}, errNoText
	}
	d := extract.Document{Name: name, Text: b.out.String(), Form: extract.Records}
	if len(b.why) > 0 {
		return d, why
	}
	return d, nil
}
