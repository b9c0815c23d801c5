package extract

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxHeader is how many bytes of a column's name are repeated with each value.
	maxHeader = 60
	// maxNamed is the number of columns up to which values are named.
	maxNamed = 1000
	// sampleRows is how many rows are compared to tell how wide a table is.
	sampleRows = 100
	// maxTitles is the limit on lines above a header.
	maxTitles = 20
)

// A RowWriter writes the rows of a table as records: a paragraph of lines such as "Price: 12 EUR",
// so that a value can be found by its column's name and is understood in any chunk. Empty values
// are left out. Lines above the header become a paragraph of their own. A column named "section" or
// "heading" provides the headings of rows. The rows of a table without a header are lines.
type RowWriter struct {
	// Separator is between the values of a row without a header. It is left without the space after
	// it between digits, where it may be a decimal comma.
	Separator string

	out     strings.Builder
	sample  [][]string // rows before the header is known
	begun   bool
	header  []string // nil if the table has none
	named   bool     // a row was written with the names of its header
	section string   // of the previous row
}

// Add writes a row, which it does not keep. The only error is ErrTooMuchText.
func (w *RowWriter) Add(row []string) error {
	if !w.begun {
		w.sample = append(w.sample, slices.Clone(row))
		if len(w.sample) < sampleRows {
			return nil
		}
		w.begin()
	} else {
		w.write(row)
	}
	if w.out.Len() > MaxText {
		return ErrTooMuchText
	}
	return nil
}

// Text returns the text of all rows.
func (w *RowWriter) Text() string {
	if !w.begun {
		w.begin()
	}
	if !w.named {
		return w.out.String() + strings.Join(w.header, ", ") // no row follows the header
	}
	return w.out.String()
}

// begin finds the header in the sample and writes the sample.
func (w *RowWriter) begin() {
	w.begun = true
	at, next := 0, 0
	if w.header, at, next = findHeader(w.sample); w.header == nil {
		at, next = 0, 0
	}
	for _, row := range w.sample[:at] {
		w.title(row)
	}
	if w.out.Len() > 0 {
		w.out.WriteByte('\n')
	}
	for _, row := range w.sample[next:] {
		w.write(row)
	}
	w.sample = nil
}

// findHeader returns the header of a table, at which row it begins, and the row after it: it is
// the first row that is as wide as most, if that looks like one.
func findHeader(rows [][]string) (header []string, at, next int) {
	width := usualWidth(rows)
	for at < min(len(rows), maxTitles) && 2*filledWidth(rows[at]) <= width {
		at++
	}
	for i, row := range rows[at:min(len(rows), maxTitles+1)] {
		if filledWidth(row) < width {
			continue
		}
		if header = headerOf(row); header != nil {
			return header, at + i, at + i + 1
		}
		if at+i+1 < len(rows) && filledWidth(rows[at+i+1]) >= width {
			if header = headerOf(joinHeaders(row, rows[at+i+1])); header != nil {
				return header, at + i, at + i + 2
			}
		}
		break
	}
	if at < len(rows) { // a header that is shorter than its rows
		header = headerOf(rows[at])
	}
	return header, at, at + 1
}

// joinHeaders returns the names of columns whose header has two rows, the first with merged cells.
// It returns nil if the first has no merged cells, or the second has numbers.
func joinHeaders(first, second []string) []string {
	if len(first) != len(second) {
		return nil
	}
	merged := false
	names := make([]string, len(first))
	for i, name := range second {
		if isNumber(name) {
			return nil
		}
		names[i] = name
		if first[i] != name {
			names[i] = strings.TrimSpace(first[i] + " " + name)
		}
		merged = merged || i > 0 && first[i] == first[i-1] && first[i] != ""
	}
	if !merged {
		return nil
	}
	return names
}

// usualWidth returns the width that most rows have; 0 if there is none of two or more.
func usualWidth(rows [][]string) (width int) {
	counts := map[int]int{}
	for _, row := range rows {
		if n := filledWidth(row); n > 1 {
			counts[n]++
			if counts[n] > counts[width] || counts[n] == counts[width] && n > width {
				width = n
			}
		}
	}
	return width
}

// filledWidth returns the number of cells of a row up to the last that is not empty.
func filledWidth(row []string) int {
	n := len(row)
	for n > 0 && strings.TrimSpace(row[n-1]) == "" {
		n--
	}
	return n
}

// headerOf returns the names of the columns if row looks like a header: at least half of its cells
// are filled, none occurs twice, and none is a number except years after the first column.
func headerOf(row []string) []string {
	if len(row) > maxNamed {
		return nil
	}
	header := make([]string, len(row))
	seen := map[string]bool{}
	for i, cell := range row {
		cell = oneLine(cell)
		if cell == "" {
			continue
		}
		if isNumber(cell) && (i == 0 || !isYear(cell)) || seen[cell] {
			return nil
		}
		seen[cell] = true
		header[i] = strings.Clone(strings.ToValidUTF8(cell[:min(len(cell), maxHeader)], ""))
	}
	if len(seen)*2 < len(row) || len(row) < 2 {
		return nil
	}
	return header
}

// isNumber reports whether a cell is a number, also with a decimal comma.
func isNumber(cell string) bool {
	_, err := strconv.ParseFloat(strings.Replace(strings.TrimSpace(cell), ",", ".", 1), 64)
	return err == nil
}

func isYear(cell string) bool {
	n, err := strconv.Atoi(cell)
	return err == nil && 1900 <= n && n < 2100
}

// title writes a line above the header.
func (w *RowWriter) title(row []string) {
	var cells []string
	for _, cell := range row {
		if cell = foldLines(cell); cell != "" {
			cells = append(cells, cell)
		}
	}
	switch len(cells) {
	case 0:
	case 2:
		w.out.WriteString(strings.TrimSuffix(cells[0], ":") + ": " + cells[1] + "\n")
	default:
		w.out.WriteString(w.joined(cells) + "\n")
	}
}

// write writes a row as a paragraph.
func (w *RowWriter) write(row []string) {
	if w.header == nil || w.torn(row) {
		if strings.TrimSpace(strings.Join(row, "")) != "" {
			w.out.WriteString(foldLines(w.joined(row)) + "\n\n")
		}
		return
	}
	section := w.enterSection(row)
	before := w.out.Len()
	for i, value := range row {
		if i == section {
			continue
		}
		if value = foldLines(value); value == "" {
			continue
		}
		if i < len(w.header) && w.header[i] != "" {
			w.out.WriteString(w.header[i] + ": ")
		}
		w.out.WriteString(value + "\n")
	}
	if w.out.Len() > before {
		w.named = true
		w.out.WriteByte('\n')
	}
}

// enterSection writes the section of a row if it is another one, and returns its column; -1 if the
// row names none.
func (w *RowWriter) enterSection(row []string) (column int) {
	column = slices.IndexFunc(w.header, func(name string) bool {
		return strings.EqualFold(name, "section") || strings.EqualFold(name, "heading")
	})
	if column < 0 || column >= len(row) {
		return -1
	}
	name := oneLine(row[column])
	if name == "" {
		return -1
	}
	if name != w.section {
		w.out.WriteString(sectionMark + strings.ReplaceAll(name, "\x00", "") + "\n\n")
		w.section = name
	}
	return column
}

// torn reports whether a row has more values than the header, and two that may be one amount with a
// decimal comma, such as 1,20: its values cannot be told apart.
func (w *RowWriter) torn(row []string) bool {
	if w.Separator != "," || filledWidth(row) <= len(w.header) {
		return false
	}
	for i, value := range row[1:] {
		if decimals(row[i], value) && len(value) == 2 && isNumber(value) {
			return true
		}
	}
	return false
}

// decimals reports whether a comma between two values may be a decimal comma.
func decimals(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return unicode.IsDigit(last) && unicode.IsDigit(first)
}

// joined returns the values of a row in one line, with the separators that it has in the file.
func (w *RowWriter) joined(row []string) string {
	var b strings.Builder
	for i, value := range row {
		if i > 0 {
			b.WriteString(w.Separator)
			if w.Separator != "," || !decimals(row[i-1], value) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(value)
	}
	return b.String()
}

// foldLines removes blank lines from s, which would end a paragraph, and zero bytes,
// which texts do not have.
func foldLines(s string) string {
	s = lineFeeds(strings.ReplaceAll(strings.TrimSpace(s), "\x00", ""))
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
