package pdf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/klippa-app/go-pdfium/enums"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/requests"

	"sidenote/retrieval/knowledge/extract"
)

// content is what has been read of a file so far.
type content struct {
	title   string
	pages   []page
	letters int   // bytes of text on all pages
	scanned []int // numbers of pages with images and no text
	damaged []int // numbers of pages that pdfium cannot open
}

// A page has its lines in reading order.
type page struct {
	number int // from 1, as in viewers
	lines  []line
}

// A line is a line of text on the page, or two that share a hyphenated word.
type line struct {
	text        string
	size        float64 // of its letters, in points, rounded to halves; 0 if unknown
	top, bottom float64 // heights of its first and last letters, from the bottom of the page
}

// read reads a file into c. An error other than *extract.Broken leaves the worker in an undefined
// state.
func (w *worker) read(raw []byte, c *content) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	opened, err := w.OpenDocument(&requests.OpenDocument{File: &raw})
	if err != nil {
		return openError(err)
	}
	defer func() {
		_, closed := w.FPDF_CloseDocument(&requests.FPDF_CloseDocument{Document: opened.Document})
		if err == nil {
			err = closed
		}
	}()
	if title, err := w.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: opened.Document, Tag: "Title"}); err == nil {
		c.title = titleOf(title.Value)
	}
	count, err := w.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return err
	}
	form, err := w.FPDF_GetFormType(&requests.FPDF_GetFormType{Document: opened.Document})
	if err != nil {
		return err
	}
	r := pageReader{w: w, document: opened.Document, form: form.FormType != enums.FPDF_FORMTYPE_NONE}
	for i := range min(count.PageCount, maxPages) {
		if err := r.page(i, c); err != nil {
			return err
		}
	}
	if count.PageCount > maxPages {
		return extract.Brokenf("more than %d pages", maxPages)
	}
	return nil
}

// refused reports whether pdfium answered a call with an error, and still works. Any other error
// means that it was interrupted.
func refused(err error) bool {
	return err != nil && (errors.Is(err, pdfiumerrors.ErrPage) || strings.HasPrefix(err.Error(), "could not get") || strings.HasPrefix(err.Error(), "could not load"))
}

func ignoreRefusal(err error) error {
	if refused(err) {
		return nil
	}
	return err
}

// openError returns the error for a file that pdfium cannot open.
func openError(err error) error {
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return errProtected
	case errors.Is(err, pdfiumerrors.ErrFormat), errors.Is(err, pdfiumerrors.ErrFile), errors.Is(err, pdfiumerrors.ErrUnknown),
		errors.Is(err, pdfiumerrors.ErrPage), errors.Is(err, pdfiumerrors.ErrSuccess):
		return errNoPDF
	}
	return err
}

// titleOf returns the title in a file's properties, or "" for placeholders of programs.
func titleOf(value string) string {
	title := strings.Join(strings.Fields(clean(value)), " ")
	for _, start := range []string{"Microsoft Word - ", "Microsoft PowerPoint - "} {
		title = strings.TrimPrefix(title, start)
	}
	switch name := strings.ToLower(title); {
	case name == "untitled", name == "unknown", strings.HasPrefix(name, "(anonymous)"):
		return ""
	default:
		for _, end := range []string{".doc", ".docx", ".dvi", ".indd", ".ppt", ".pptx", ".qxd", ".rtf", ".tex", ".xls", ".xlsx", ".pdf"} {
			if strings.HasSuffix(name, end) {
				return ""
			}
		}
	}
	return title
}
