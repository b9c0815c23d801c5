package extract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A heading is a heading in the text.
type heading struct {
	at    int // offset of its line in the text
	level int
	text  string
}

// maxLevel is the level of the smallest headings in Markdown.
const maxLevel = 6

// titled returns the text of a page and its title, "" if that is the first heading of level 1.
// headings are those of the text, and title is the page's <title>.
//
// The only heading of level 1 is the title, and so is the first of several if <title> contains it,
// as when it also names the site. Otherwise <title> is the title, and the headings are sections of
// the page, one level deeper if there are several of level 1. If the top level is deeper and has a
// single heading, which <title> contains, the headings are moved up.
func titled(text string, headings []heading, title string) (leveled, name string) {
	if len(headings) == 0 {
		return text, title
	}
	top, tops := maxLevel, 0
	for _, h := range headings {
		if h.level < top {
			top, tops = h.level, 0
		}
		if h.level == top {
			tops++
		}
	}
	first := headings[0]
	said := first.level == top && says(title, first.text)
	switch {
	case title == "", top == 1 && (tops == 1 || said):
		return text, ""
	case said && tops == 1:
		return shift(text, headings, 1-top), ""
	case said:
		return text, first.text
	case top == 1:
		return shift(text, headings, 1), title
	}
	return text, title
}

// maxTitle is the length in bytes above which titles and headings are not compared: searching one
// long text in another takes too long.
const maxTitle = 1000

// says reports whether title contains the words of heading, one after the other.
func says(title, heading string) bool {
	if len(title) > maxTitle || len(heading) > maxTitle {
		return false
	}
	title, heading = strings.ToLower(title), strings.ToLower(heading)
	for rest := title; ; {
		at := strings.Index(rest, heading)
		if at < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(title[:len(title)-len(rest)+at])
		after, _ := utf8.DecodeRuneInString(rest[at+len(heading):])
		if !ofWord(before) && !ofWord(after) {
			return true
		}
		_, size := utf8.DecodeRuneInString(rest[at:])
		rest = rest[at+size:]
	}
}

func ofWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// shift changes the levels of headings.
func shift(text string, headings []heading, by int) string {
	var out strings.Builder
	end := 0
	for _, h := range headings {
		out.WriteString(text[end:h.at])
		out.WriteString(strings.Repeat("#", min(h.level+by, maxLevel)))
		end = h.at + h.level
	}
	out.WriteString(text[end:])
	return out.String()
}
