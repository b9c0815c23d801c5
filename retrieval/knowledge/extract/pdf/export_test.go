package pdf

import "github.com/klippa-app/go-pdfium/requests"

// Release names the part of a cache that this build uses; Private creates its folder.
var (
	Release = release
	Private = private
)

// Lines returns the Markdown of lines of text, which are given as size, distance from the previous
// line and text, with one list for each page.
func Lines(pages ...[]Line) string {
	c := content{}
	for i, lines := range pages {
		p, height := page{number: i + 1}, 800.0
		for _, l := range lines {
			height -= l.Down
			p.lines = append(p.lines, line{text: l.Text, size: l.Size, top: height, bottom: height})
		}
		c.pages = append(c.pages, p)
	}
	return c.markdown()
}

// A Line is a line of a page.
type Line struct {
	Size, Down float64
	Text       string
}

// OpenPath makes pdfium itself open a file.
func (r *Reader) OpenPath(path string) error {
	w, err := r.take()
	if err != nil {
		return err
	}
	defer w.close()
	_, err = w.OpenDocument(&requests.OpenDocument{FilePath: &path})
	return openError(err)
}

// ErrNoPDF is the error for a file that cannot be opened.
var ErrNoPDF = errNoPDF

// Ranges, Unhyphenated and TitleOf are exported for tests.
var (
	Ranges       = ranges
	Unhyphenated = unhyphenated
	TitleOf      = titleOf
)
