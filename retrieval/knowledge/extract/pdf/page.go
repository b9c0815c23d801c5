package pdf

import (
	"math"
	"strings"
	"unicode"

	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"

	"sidenote/retrieval/knowledge/extract"
)

// A pageReader reads the pages of one file.
type pageReader struct {
	w        *worker
	document references.FPDF_DOCUMENT
	form     bool // it has form fields
	index    int  // of the current page, from 0
}

// page adds a page to c.
func (r *pageReader) page(index int, c *content) error {
	r.index = index
	loaded, err := r.load(index)
	p := page{number: index + 1}
	text := 0
	if err == nil {
		text, err = r.lines(loaded, &p)
	}
	if refused(err) {
		c.damaged = append(c.damaged, p.number)
		return nil
	}
	if err != nil {
		return err
	}
	if c.letters += text; c.letters > extract.MaxText {
		return extract.ErrTooMuchText
	}
	c.pages = append(c.pages, p)
	if len(p.lines) == 0 {
		scan, err := r.isScan(loaded)
		if err != nil {
			return err
		}
		if scan {
			c.scanned = append(c.scanned, p.number)
		}
	}
	_, err = r.w.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded})
	return err
}

// load opens a page and merges the values of form fields into it.
func (r *pageReader) load(index int) (references.FPDF_PAGE, error) {
	request := &requests.FPDF_LoadPage{Document: r.document, Index: index}
	loaded, err := r.w.FPDF_LoadPage(request)
	if err != nil {
		return "", err
	}
	if !r.form {
		return loaded.Page, nil
	}
	flat, err := r.w.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: requests.Page{ByReference: &loaded.Page}, Usage: requests.FPDFPage_FlattenUsageNormalDisplay})
	if err != nil || flat.Result != responses.FPDFPage_FlattenResultSuccess {
		return loaded.Page, ignoreRefusal(err)
	}
	if _, err := r.w.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page}); err != nil {
		return "", err
	}
	if loaded, err = r.w.FPDF_LoadPage(request); err != nil {
		return "", err
	}
	return loaded.Page, nil
}

// lines adds the lines of a page, and returns their length in bytes.
func (r *pageReader) lines(loaded references.FPDF_PAGE, p *page) (bytes int, err error) {
	opened, err := r.w.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByReference: &loaded}})
	if err != nil {
		return 0, err
	}
	text := opened.TextPage
	count, err := r.w.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text})
	if err != nil {
		return 0, err
	}
	if count.Count > extract.MaxText {
		return 0, extract.ErrTooMuchText
	}
	if count.Count > 0 {
		got, err := r.w.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: text, Count: count.Count})
		if err != nil {
			return 0, err
		}
		bytes = len(got.Text)
		if err := r.place(text, got.Text, p); err != nil {
			return 0, err
		}
	}
	_, err = r.w.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text})
	return bytes, err
}

// place divides the text of a page into lines and gets their positions from pdfium.
func (r *pageReader) place(text references.FPDF_TEXTPAGE, all string, p *page) error {
	at, ended := 0, 0 // in letters: where the line begins, and where the last of p.lines ended
	for raw := range strings.Lines(all) {
		l := line{text: strings.TrimSpace(leaders.ReplaceAllString(unhyphenated(clean(raw)), leader))}
		first, last, letters := inked(raw)
		start := at
		at += letters
		if l.text == "" {
			continue
		}
		if err := r.locate(text, start+first, start+last, &l); err != nil {
			return err
		}
		joined, err := r.join(text, p, l, ended, start+first)
		if err != nil {
			return err
		}
		if !joined {
			p.lines = append(p.lines, l)
		}
		ended = start + last + 1
	}
	return nil
}

// inked returns the first and the last letter of a line that are not spaces, and the number of all
// letters.
func inked(raw string) (first, last, letters int) {
	first = -1
	for _, c := range raw {
		if !unicode.IsSpace(c) {
			last = letters
			if first < 0 {
				first = letters
			}
		}
		letters++
	}
	return max(first, 0), last, letters
}

// If a line begins within these distances, in multiples of its letter size, from the end of the
// previous one, it continues the same word or line: some programs draw the last letter of a line
// separately, and subscripts and superscripts are a little lower or higher.
const (
	sameHeight = 0.5
	sameWord   = 0.15
	nextWord   = 1.0
)

// join adds a line to the last one of a page if it continues that.
func (r *pageReader) join(text references.FPDF_TEXTPAGE, p *page, l line, ended, begins int) (bool, error) {
	if len(p.lines) == 0 {
		return false, nil
	}
	before := &p.lines[len(p.lines)-1]
	size := max(before.size, l.size)
	if math.Abs(before.bottom-l.top) > sameHeight*size {
		return false, nil
	}
	end, err := r.origin(text, ended)
	if err != nil {
		return false, ignoreRefusal(err)
	}
	begin, err := r.origin(text, begins)
	if err != nil {
		return false, ignoreRefusal(err)
	}
	gap := begin - end
	if gap < -sameWord*size || gap > nextWord*size {
		return false, nil
	}
	space := ""
	if gap > sameWord*size {
		space = " "
	}
	if len(l.text) > len(before.text) {
		before.size = l.size
	}
	before.text += space + l.text
	before.bottom = l.bottom
	return true, nil
}

// origin returns the horizontal position of a letter. The letter that pdfium adds at the end of a
// line is at the end of the line.
func (r *pageReader) origin(text references.FPDF_TEXTPAGE, letter int) (float64, error) {
	at, err := r.w.FPDFText_GetCharIndexFromTextIndex(&requests.FPDFText_GetCharIndexFromTextIndex{TextPage: text, NTextIndex: letter})
	if err != nil {
		return 0, err
	}
	origin, err := r.w.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: text, Index: at.CharIndex})
	if err != nil {
		return 0, err
	}
	return origin.X, nil
}

// locate sets size and heights of a line by its first and last letter.
func (r *pageReader) locate(text references.FPDF_TEXTPAGE, first, last int, l *line) (err error) {
	if l.size, l.top, err = r.letter(text, first); err != nil {
		return err
	}
	l.bottom = l.top
	if last == first {
		return nil
	}
	size, bottom, err := r.letter(text, last)
	if size > 0 {
		l.bottom = bottom
		l.size = min(l.size, size) // the first letter may be larger than its line
	}
	return err
}

// letter returns size and height of a letter; 0 if unknown.
func (r *pageReader) letter(text references.FPDF_TEXTPAGE, letter int) (size, height float64, err error) {
	at, err := r.w.FPDFText_GetCharIndexFromTextIndex(&requests.FPDFText_GetCharIndexFromTextIndex{TextPage: text, NTextIndex: letter})
	if err != nil {
		return 0, 0, ignoreRefusal(err)
	}
	font, err := r.w.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: text, Index: at.CharIndex})
	if err != nil {
		return 0, 0, ignoreRefusal(err)
	}
	matrix, err := r.w.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: text, Index: at.CharIndex})
	if err != nil {
		return 0, 0, ignoreRefusal(err)
	}
	m := matrix.Matrix
	return scaled(font.FontSize, float64(m.C), float64(m.D)), float64(m.F), nil
}

// scaled returns the size of letters from that of their font and the transformation matrix: some
// programs choose a font of size 1 and scale the matrix.
func scaled(size, c, d float64) float64 {
	if scale := math.Hypot(c, d); scale > 0 {
		size *= scale
	}
	return math.Round(2*size) / 2
}
