package office

import (
	"context"
	"encoding/xml"
	"strconv"
	"strings"
	"unicode/utf8"

	"sidenote/retrieval/knowledge/extract"
)

// A workbook is what the sheets of an XLSX file share.
type workbook struct {
	sheets   []sheetPart
	date1904 bool
	strings  []string
	formats  []numberFormat // by the number of a cell's style
}

// A sheetPart is a sheet that is shown.
type sheetPart struct{ name, id string }

// readXLSX returns the sheets of a file as sections, with the values of cells as they are shown.
func readXLSX(ctx context.Context, raw []byte) (extract.Document, error) {
	a, err := open(ctx, extract.XLSX, raw)
	if err != nil {
		return extract.Document{}, err
	}
	main, err := a.mainPart()
	if err != nil {
		return extract.Document{}, err
	}
	parts, err := a.relations(main)
	if err != nil {
		return extract.Document{}, err
	}
	b, text, styles := &workbook{}, &stringReader{}, &formatReader{codes: map[int]string{}}
	for _, part := range []struct {
		name string
		read func(xml.Token) error
	}{{main, b.token}, {related(parts, "sharedStrings"), text.token}, {related(parts, "styles"), styles.token}} {
		if err := a.each(part.name, part.read); err != nil {
			return extract.Document{}, err
		}
	}
	b.strings, b.formats = text.list, styles.formats()
	title, err := a.title()
	if err != nil {
		return extract.Document{}, err
	}
	out := spreadsheet{}
	for _, s := range b.sheets {
		if parts[s.id].kind != "worksheet" {
			continue // a chart
		}
		r := &sheetReader{book: b, out: &out, sheet: sheet{name: s.name}, row: -1}
		if !out.write(&r.sheet, a.each(parts[s.id].part, r.token)) {
			break
		}
	}
	return out.document(ctx, title)
}

func (b *workbook) token(t xml.Token) error {
	e, ok := t.(xml.StartElement)
	if !ok {
		return nil
	}
	switch e.Name.Local {
	case "workbookPr":
		b.date1904 = isTrue(value(e, "date1904"))
	case "sheet":
		if state := value(e, "state"); state == "" || state == "visible" {
			b.sheets = append(b.sheets, sheetPart{value(e, "name"), value(e, "id")})
		}
	}
	return nil
}

func isTrue(value string) bool { return value == "1" || value == "true" || value == "on" }

// A stringReader reads the texts that cells refer to by number, or the one of an inline string.
type stringReader struct {
	list   []string
	size   int
	text   flow
	in     bool // in an element with text
	spoken int  // open elements with the pronunciation
}

func (r *stringReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		switch t.Name.Local {
		case "rPh":
			r.spoken++
		case "r":
			r.text.endScript()
		case "vertAlign":
			r.text.script = value(t, "val")
		case "t":
			r.in = true
		}
	case xml.EndElement:
		switch t.Name.Local {
		case "rPh":
			r.spoken--
		case "t":
			r.in = false
		case "si":
			text := r.take()
			r.list = append(r.list, text)
			r.size += len(text) + 16
		}
	case xml.CharData:
		if r.in && r.spoken == 0 {
			r.text.write(t)
		}
	}
	if r.size+r.text.text.Len() > extract.MaxText {
		return extract.ErrTooMuchText
	}
	return nil
}

// take returns the text and begins the next one.
func (r *stringReader) take() string { return unescape(r.text.take()) }

// unescape replaces the characters that Excel writes as _x000D_ (ECMA-376 part 1, 22.9.2.19).
func unescape(text string) string {
	const length = len("_x0000_")
	if !strings.Contains(text, "_x") {
		return text
	}
	var b strings.Builder
	for {
		at := strings.Index(text, "_x")
		if at < 0 || len(text)-at < length {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:at])
		n, err := strconv.ParseUint(text[at+2:at+length-1], 16, 16)
		if err != nil || text[at+length-1] != '_' {
			b.WriteString("_x")
			text = text[at+2:]
			continue
		}
		if r := rune(n); r >= ' ' && utf8.ValidRune(r) { //nolint:gosec // it has 16 bits
			b.WriteRune(r)
		}
		text = text[at+length:]
	}
}

// A sheetReader reads the rows of a sheet that are shown.
type sheetReader struct {
	book  *workbook
	out   *spreadsheet
	sheet sheet

	row, column int  // the current ones, from 0
	hiddenRow   bool // the current row is
	hidden      [maxColumns]bool
	cells       []string
	kind        string // of the current cell
	style       int
	value       strings.Builder
	inValue     bool
	inline      stringReader
	inInline    bool
}

func (r *sheetReader) token(t xml.Token) error {
	if r.inInline {
		if err := r.inline.token(t); err != nil {
			return err
		}
	}
	switch t := t.(type) {
	case xml.StartElement:
		r.start(t)
	case xml.EndElement:
		return r.end(t.Name.Local)
	case xml.CharData:
		if r.inValue {
			r.value.Write(t)
		}
	}
	return nil
}

func (r *sheetReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "col":
		first, _ := strconv.Atoi(value(e, "min"))
		last, _ := strconv.Atoi(value(e, "max"))
		for i := max(first, 1); isTrue(value(e, "hidden")) && i <= min(last, maxColumns); i++ {
			r.hidden[i-1] = true
		}
	case "row":
		r.row, r.column = r.row+1, -1
		if n, err := strconv.Atoi(value(e, "r")); err == nil && n > r.row {
			r.row = n - 1
		}
		r.hiddenRow, r.cells = isTrue(value(e, "hidden")), r.cells[:0]
	case "c":
		r.column++
		if column, _, ok := cellAt(value(e, "r")); ok && column >= r.column {
			r.column = column
		}
		r.kind = value(e, "t")
		r.style, _ = strconv.Atoi(value(e, "s"))
		r.value.Reset()
		r.inline.text = flow{}
	case "v":
		r.inValue = true
	case "is":
		r.inInline = true
	case "mergeCell":
		from, to, _ := strings.Cut(value(e, "ref"), ":")
		left, top, ok := cellAt(from)
		right, bottom, found := cellAt(to)
		if ok && found && len(r.sheet.merges) < maxMerges {
			r.sheet.merges = append(r.sheet.merges, merge{top, left, bottom, right})
		}
	}
}

func (r *sheetReader) end(name string) error {
	switch name {
	case "v":
		r.inValue = false
	case "is":
		r.inInline = false
	case "c":
		r.cell()
	case "row":
		if !r.hiddenRow {
			return r.out.add(&r.sheet, r.row, r.cells)
		}
	}
	return nil
}

// cell adds the current cell to the row if it is shown.
func (r *sheetReader) cell() {
	if r.hiddenRow || r.column >= maxColumns || r.hidden[r.column] {
		return
	}
	text := r.text()
	if strings.TrimSpace(text) == "" {
		return
	}
	for len(r.cells) <= r.column {
		r.cells = append(r.cells, "")
	}
	r.cells[r.column] = text
}

// text returns the value of the current cell as it is shown.
func (r *sheetReader) text() string {
	raw := r.value.String()
	switch r.kind {
	case "s":
		if n, err := strconv.Atoi(raw); err == nil && n >= 0 && n < len(r.book.strings) {
			return r.book.strings[n]
		}
		return ""
	case "inlineStr":
		return r.inline.take()
	case "str":
		return unescape(raw)
	case "b":
		if raw == "1" {
			return "TRUE"
		}
		return "FALSE"
	case "", "n":
		if r.style >= 0 && r.style < len(r.book.formats) {
			return r.book.formats[r.style].format(raw, r.book.date1904)
		}
		return general(raw)
	}
	return raw // an error such as #N/A, or a date
}

// cellAt returns the column and row of a cell such as B3, from 0.
func cellAt(ref string) (column, row int, ok bool) {
	i := 0
	for ; i < len(ref) && 'A' <= ref[i] && ref[i] <= 'Z' && column < maxColumns; i++ {
		column = column*26 + int(ref[i]-'A') + 1
	}
	row, err := strconv.Atoi(ref[i:])
	return column - 1, row - 1, err == nil && column > 0 && column <= maxColumns && row > 0
}
