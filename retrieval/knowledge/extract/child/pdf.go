package child

import (
	"bytes"
	"math"
	"strings"

	"github.com/ledongthuc/pdf"

	"sidenote/retrieval/knowledge/extract"
)

// readPDF reads a PDF where pdftotext is not installed. On hostile files the library may
// loop or grow for ever; the limits of the process end that.
func readPDF(r *bytes.Reader) (extract.Document, error) {
	file, err := pdf.NewReader(r, r.Size())
	if err != nil {
		if strings.Contains(err.Error(), "encrypt") || strings.Contains(err.Error(), "password") {
			return extract.Document{}, errProtected
		}
		return extract.Document{}, errNoPDF
	}
	var b strings.Builder
	for i := 1; i <= file.NumPage() && b.Len() <= extract.MaxText; i++ {
		page := file.Page(i)
		if page.V.IsNull() {
			continue
		}
		writeLines(&b, page)
		b.WriteByte('\f')
	}
	if b.Len() > extract.MaxText {
		return extract.Document{}, extract.ErrTooMuchText
	}
	title := file.Trailer().Key("Info").Key("Title").Text()
	return extract.Document{Name: strings.TrimSpace(title), Text: strings.ToValidUTF8(b.String(), "")}, nil
}

// lineEnds returns, by font, the text into which the library turns a line feed: it adds
// one after each run of letters and then decodes it by the font's table.
func lineEnds(page pdf.Page) map[string]string {
	ends := map[string]string{}
	for _, name := range page.Fonts() {
		font := page.Font(name)
		base := font.BaseFont()
		base = base[strings.IndexByte(base, '+')+1:] // without the name of the subset, if it is one
		ends[base] += font.Encoder().Decode("\n")
	}
	return ends
}

// writeLines writes the letters of a page in the order in which they are drawn. It begins
// a new line where the next letter is higher or lower, adds a blank line where the
// distance is large, and a space where there is a gap.
func writeLines(b *strings.Builder, page pdf.Page) {
	ends := lineEnds(page)
	var last pdf.Text
	for _, l := range page.Content().Text {
		if l.S == "\n" || strings.Contains(ends[l.Font], l.S) {
			continue
		}
		if last.S != "" {
			size := max(l.FontSize, last.FontSize, 1)
			switch down := math.Abs(last.Y - l.Y); {
			case down > 1.8*size:
				b.WriteString("\n\n")
			case down > size/2:
				b.WriteByte('\n')
			case l.X > last.X+last.W+size/5 && l.S != " " && last.S != " ":
				b.WriteByte(' ')
			}
		}
		b.WriteString(l.S)
		last = l
	}
}
