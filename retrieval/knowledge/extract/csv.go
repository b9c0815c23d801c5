package extract

import (
	"encoding/csv"
	"errors"
	"io"
	"path"
	"strings"
	"unicode"
)

// readCSV writes rows as a RowWriter does.
func readCSV(name, text string) (Document, error) {
	comma, text := delimiter(name, text)
	r := rowsOf(text, comma)
	w := RowWriter{Separator: string(comma)}
	if comma == '\t' {
		w.Separator = " |"
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return Document{Text: w.Text(), Form: Records}, nil
		}
		if err != nil {
			return Document{}, Brokenf("it is not valid CSV: %v", errors.Unwrap(err))
		}
		if err := w.Add(row); err != nil {
			return Document{}, err
		}
	}
}

func rowsOf(text string, comma rune) *csv.Reader {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma = comma
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	r.TrimLeadingSpace = comma != '\t'
	r.ReuseRecord = true
	return r
}

// sampleBytes is how much of a file is read to find its delimiter.
const sampleBytes = 64 << 10

// delimiter returns the separator of values, and the rows. It is given by a first line such as
// "sep=;", which spreadsheets write, or else it is the candidate that divides most rows into the
// same number of values. A comma between digits is no separator if another candidate does as well.
func delimiter(name, text string) (comma rune, rows string) {
	line, rest, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
	if sep, ok := strings.CutPrefix(strings.ToLower(strings.Trim(line, `"`)), "sep="); ok && len(sep) == 1 && strings.Contains(",;\t|", sep) {
		return rune(sep[0]), rest
	}
	if strings.EqualFold(path.Ext(name), ".tsv") {
		return '\t', text
	}
	sample := text
	if len(sample) > sampleBytes {
		sample = sample[:strings.LastIndexByte(sample[:sampleBytes], '\n')+1]
	}
	comma = ','
	best, width := divided(sample, ',')
	weak := onlyDecimals(sample)
	for _, c := range "\t;|" {
		n, columns := divided(sample, c)
		if n > best || n == best && n > 0 && (weak || columns > width) {
			comma, best, width, weak = c, n, columns, false
		}
	}
	return comma, text
}

// divided returns how many rows a delimiter divides into the same number of values, of two or more,
// and that number.
func divided(sample string, comma rune) (rows, width int) {
	counts := map[int]int{}
	r := rowsOf(sample, comma)
	for range sampleRows {
		row, err := r.Read()
		if err != nil {
			break
		}
		if n := len(row); n > 1 {
			if counts[n]++; counts[n] > rows || counts[n] == rows && n > width {
				rows, width = counts[n], n
			}
		}
	}
	return rows, width
}

// onlyDecimals reports whether all commas of a text are between digits.
func onlyDecimals(text string) bool {
	for i := range len(text) {
		if text[i] == ',' && (i == 0 || i+1 == len(text) || !unicode.IsDigit(rune(text[i-1])) || !unicode.IsDigit(rune(text[i+1]))) {
			return false
		}
	}
	return true
}
