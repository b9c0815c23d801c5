package child

import (
	"bytes"
	"math"
	"strings"

	"github.com/ledongthuc/pdf"

	"sidenote/retrieval/knowledge/extract"
)

// readPDF is what is used where there is no pdftotext. The library has endless
// loops and grows without bound on files made for it; the limits of the process
// end both.
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
		return extract.Document{}, errTooMuch
	}
	title := file.Trailer().Key("Info").Key("Title").Text()
	return extract.Document{Name: strings.TrimSpace(title), Text: strings.ToValidUTF8(b.String(), "")}, nil
}

// lineEnds returns what the library takes its own line feeds for, by font: it puts
// one after each run of letters and then looks up what letter that is.
func lineEnds(page pdf.Page) map[string]string {
	ends := map[string]string{}
	for _, name := range page.Fonts() {
		font := page.Font(name)
		base := font.BaseFont()
		if _, after, subset := strings.Cut(base, "+"); subset {
			base = after
		}
		ends[base] += font.Encoder().Decode("\n")
	}
	return ends
}

// writeLines writes the letters of a page in the order in which they are drawn: a
// new line where the next is drawn higher or lower, a blank one where that is far,
// and a blank where there is room for one.
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
