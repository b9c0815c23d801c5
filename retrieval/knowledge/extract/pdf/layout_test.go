package pdf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/extract/pdf"
)

// Larger letters are headings if that is clear.
func TestHeadings(t *testing.T) {
	text := func(n int) []pdf.Line {
		var lines []pdf.Line
		for i := range n {
			lines = append(lines, pdf.Line{Size: 10, Down: 12, Text: fmt.Sprintf("words of the text, line %c.", 'a'+i)})
		}
		return lines
	}
	body := strings.Repeat("x", 0)
	for _, l := range text(4) {
		body += l.Text + "\n"
	}
	page := func(heads ...pdf.Line) []pdf.Line { return append(heads, text(4)...) }
	f := func(name, want string, pages ...[]pdf.Line) {
		t.Helper()
		if got := pdf.Lines(pages...); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	f("no headings", "###### p. 1\n\n"+body, page())
	f("a title, and two sections", "# Title of two lines\n\n## One\n\n###### p. 1\n\n"+body+"\n## Two\n\n###### p. 2\n\n"+body,
		page(pdf.Line{20, 20, "Title"}, pdf.Line{20, 20, "of two lines"}, pdf.Line{12, 20, "One"}), page(pdf.Line{12, 20, "Two"}))
	f("sections without a title", "## One\n\n###### p. 1\n\n"+body+"\n## Two\n\n###### p. 2\n\n"+body,
		page(pdf.Line{12, 20, "One"}), page(pdf.Line{12, 20, "Two"}))
	f("a single decoration below a title is text", "# Title\n\n###### p. 1\n\nby Nobody\n"+body,
		page(pdf.Line{20, 20, "Title"}, pdf.Line{14, 20, "by Nobody"}))
	f("hardly larger letters are text", "###### p. 1\n\nOne\n"+body, page(pdf.Line{10.5, 20, "One"}))
	f("numbers alone are no heading", "###### p. 1\n\n42\n"+body, page(pdf.Line{20, 20, "42"}))
	f("a page of large letters is text", "###### p. 1\n\n"+strings.Repeat("a slide\n", 4)+"\n###### p. 2\n\n"+strings.Repeat(body, 9),
		slides(4, 20), slices.Repeat(text(4), 9))
	f("a gap between two lines parts paragraphs", "###### p. 1\n\na\nb\n\nc\n", []pdf.Line{{10, 12, "a"}, {10, 12, "b"}, {10, 20, "c"}})
	f("a column goes on in the middle of a sentence", "###### p. 1\n\nwhich\nends\n\nHere\n", []pdf.Line{{10, 200, "which"}, {10, -150, "ends"}, {10, -40, "Here"}})
	f("bullets and marks", "###### p. 1\n\n- one\n\\# two\n", []pdf.Line{{10, 12, "• one"}, {10, 12, "# two"}})
	f("nothing", "", nil)
}

// slides returns lines of a size.
func slides(n int, size float64) []pdf.Line {
	return slices.Repeat([]pdf.Line{{size, size + 2, "a slide"}}, n)
}

// Lines at the same place of most pages are not part of the text.
func TestRunningTitles(t *testing.T) {
	var pages [][]pdf.Line
	want := ""
	for i := range 5 {
		pages = append(pages, []pdf.Line{
			{10, 10, "The running title"}, {10, 20, fmt.Sprintf("text %c", 'a'+i)}, {10, 12, "again"}, {10, 12, fmt.Sprintf("more %c", 'a'+i)},
			{10, float64(100 + i), "at another height"}, {10, float64(300 - i), fmt.Sprintf("Page %d of 5", i+1)},
		})
		if i > 0 {
			want += "\n"
		}
		want += fmt.Sprintf("###### p. %d\n\ntext %c\nagain\nmore %c\n\nat another height\n", i+1, 'a'+i, 'a'+i)
	}
	if got := pdf.Lines(pages...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := pdf.Lines([]pdf.Line{{10, 10, "text"}, {10, 700, "1"}}); got != "###### p. 1\n\ntext\n" {
		t.Errorf("the number of a page stays: %q", got)
	}
}

func TestWords(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(pdf.Ranges([]int{7}), "page 7")
	f(pdf.Ranges([]int{1, 2, 3, 7}), "pages 1-3, 7")
	f(pdf.Ranges([]int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}), "pages 1, 3, 5, 7, 9, 11, 13, 15, …")
	f(pdf.Unhyphenated("sec\ufffetion"), "section")
	f(pdf.Unhyphenated("Anglo\ufffeSaxon 1\ufffe2\ufffe"), "Anglo-Saxon 1-2-")
	f(pdf.TitleOf(" Microsoft Word - Leave \x00policy "), "Leave policy")
	f(pdf.TitleOf("Microsoft Word - leave.doc"), "")
	f(pdf.TitleOf("untitled"), "")
}

// A line with the chapter title recurs on some pages only; titles of slides do, too.
func TestChapterTitles(t *testing.T) {
	var pages [][]pdf.Line
	want := ""
	for i := range 9 {
		head, size := []string{"1 INTRODUCTION", "2 METHODS", "Slide"}[i/3], []float64{10, 10, 14}[i/3]
		pages = append(pages, []pdf.Line{{size, 10, fmt.Sprintf("%s %d", head, i)}, {10, 30, fmt.Sprintf("text %c of the page", 'a'+i)}, {10, 12, fmt.Sprintf("more of %c", 'a'+i)}, {10, float64(12 + i), "and more"}})
		if i > 0 {
			want += "\n"
		}
		if size > 10 {
			want += fmt.Sprintf("## Slide %d\n\n", i)
		}
		want += fmt.Sprintf("###### p. %d\n\ntext %c of the page\nmore of %c\n", i+1, 'a'+i, 'a'+i)
		if i > 5 {
			want += "\n"
		}
		want += "and more\n"
	}
	if got := pdf.Lines(pages...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
