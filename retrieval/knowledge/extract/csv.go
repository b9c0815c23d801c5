package extract

import (
	"encoding/csv"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxHeader is how many bytes of a column's name are repeated with each value.
const maxHeader = 60

// readCSV writes each row as a paragraph of lines such as "Price: 12 EUR", so that a value can be
// found by its column's name and is understood in any chunk. Empty values are left out. A column
// named "section" or "heading" provides the headings of rows.
func readCSV(name, text string) (Document, error) {
	comma, text := delimiter(name, text)
	r := csv.NewReader(strings.NewReader(text))
	r.Comma = comma
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	r.TrimLeadingSpace = r.Comma != '\t'
	r.ReuseRecord = true
	var b strings.Builder
	var header []string
	section := "" // of the previous row
	for first := true; ; {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Document{}, Brokenf("it is not valid CSV: %v", errors.Unwrap(err))
		}
		if first && strings.TrimSpace(strings.Join(row, "")) != "" {
			first = false
			if header = headerOf(row); header != nil {
				continue
			}
		}
		if i := sectionColumn(header); i >= 0 && i < len(row) {
			if name := oneLine(row[i]); name != "" {
				if name != section {
					b.WriteString(sectionMark + strings.ReplaceAll(name, "\x00", "") + "\n\n")
				}
				section, row[i] = name, ""
			}
		}
		writeRow(&b, header, row)
		if b.Len() > MaxText {
			return Document{}, ErrTooMuchText
		}
	}
	if b.Len() == 0 {
		b.WriteString(strings.Join(header, ", ")) // there is only a header
	}
	return Document{Text: b.String(), Form: Records}, nil
}

// sectionColumn returns the column that names the section of rows, -1 if there is none.
func sectionColumn(header []string) int {
	return slices.IndexFunc(header, func(name string) bool {
		return strings.EqualFold(name, "section") || strings.EqualFold(name, "heading")
	})
}

func writeRow(b *strings.Builder, header, row []string) {
	before := b.Len()
	if header == nil {
		if strings.TrimSpace(strings.Join(row, "")) != "" {
			b.WriteString(foldLines(strings.Join(row, ", ")) + "\n\n")
		}
		return
	}
	for i, value := range row {
		if value = foldLines(value); value == "" {
			continue
		}
		if i < len(header) && header[i] != "" {
			b.WriteString(header[i] + ": ")
		}
		b.WriteString(value + "\n")
	}
	if b.Len() > before {
		b.WriteByte('\n')
	}
}

// maxNamed is the number of columns up to which values are named.
const maxNamed = 1000

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
		if _, err := strconv.ParseFloat(cell, 64); err == nil && (i == 0 || !isYear(cell)) || seen[cell] {
			return nil
		}
		seen[cell] = true
		header[i] = strings.Clone(strings.ToValidUTF8(cell[:min(len(cell), maxHeader)], ""))
	}
	if len(seen)*2 < len(row) || len(row) == 1 {
		return nil
	}
	return header
}

func isYear(cell string) bool {
	n, err := strconv.Atoi(cell)
	return err == nil && 1900 <= n && n < 2100
}

// delimiter returns the separator of values, and the rows. It is given by a first line such as
// "sep=;", which spreadsheets write, or else it is the most frequent candidate in the first line,
// outside of quotes.
func delimiter(name, text string) (comma rune, rows string) {
	line, rest, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
	if sep, ok := strings.CutPrefix(line, "sep="); ok && len(sep) == 1 && strings.Contains(",;\t|", sep) {
		return rune(sep[0]), rest
	}
	if strings.EqualFold(path.Ext(name), ".tsv") {
		return '\t', text
	}
	counts := map[rune]int{}
	quoted := false
	for _, c := range line {
		switch c {
		case '"':
			quoted = !quoted
		case ',', ';', '\t', '|':
			if !quoted {
				counts[c]++
			}
		}
	}
	comma = ','
	for _, c := range ";\t|" {
		if counts[c] > counts[comma] {
			comma = c
		}
	}
	return comma, text
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
