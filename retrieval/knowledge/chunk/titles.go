package chunk

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A textTitle is a heading of plain text.
type textTitle struct {
	start, end int // in the body, including its underline and the blank lines after it
	style      string
	level      int
	text       string
}

const (
	// maxTitle is the length of the longest title, in characters.
	maxTitle = 80
	// capitals is the style of titles in capitals, numbered that of titles with a number; the
	// number's depth is appended to it.
	capitals = "capitals"
	numbered = "numbered"
)

// textTitles returns the clear titles of plain text: they are underlined, or on a line of their
// own after = signs, with a number, or in capitals. Of the last two kinds there must be several,
// which do not follow each other like the items of a list.
//
// The first title is that of the document if no other has its style; otherwise all are sections.
func textTitles(body string) []textTitle {
	var titles []textTitle
	at, blank := 0, true
	for at < len(body) {
		line, rest := cutLine(body[at:])
		t, ok := textTitle{}, false
		if blank {
			t, ok = titleAt(line, rest)
		}
		if !ok {
			blank = strings.TrimSpace(line) == ""
			at += len(body) - at - len(rest)
			continue
		}
		t.start = at
		at += t.end
		for at < len(body) {
			line, rest := cutLine(body[at:])
			if strings.TrimSpace(line) != "" {
				break
			}
			at = len(body) - len(rest)
		}
		t.end, blank = at, true
		titles = append(titles, t)
	}
	for _, style := range []string{capitals, numbered} {
		if !plausible(titles, style) {
			titles = slices.DeleteFunc(titles, func(t textTitle) bool { return strings.HasPrefix(t.style, style) })
		}
	}
	level(titles)
	return titles
}

// cutLine returns the first line of a text without its line break, and the text after it.
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return line, rest
}

// titleAt returns the title at a line that follows a blank one. Its end is its length.
func titleAt(line, rest string) (t textTitle, ok bool) {
	text := strings.TrimSpace(line)
	n := utf8.RuneCountInString(text)
	if n == 0 || n > maxTitle {
		return t, false
	}
	next, after := cutLine(rest)
	length := len(line) + 1
	if under := strings.TrimSpace(next); isRule(text) && strings.ContainsAny(text[:1], "=#*") {
		last, _ := cutLine(after)
		inner := utf8.RuneCountInString(under)
		if strings.TrimSpace(last) == text && inner > 0 && !isRule(under) && inner <= len(text)+2 {
			return textTitle{end: length + len(next) + 1 + len(last) + 1, style: text[:1] + text[:1], text: under}, true
		}
		return t, false
	} else if isRule(under) && !isRule(text) && len(under) >= n-2 && line == strings.TrimLeft(line, " \t") && hasLetter(text) {
		return textTitle{end: length + len(next) + 1, style: under[:1], text: text}, true
	}
	if line != strings.TrimLeft(line, " \t") || strings.ContainsAny(text[len(text)-1:], ".,;:!?|") {
		return t, false
	}
	alone := strings.TrimSpace(next) == ""
	if signs := len(text) - len(strings.TrimLeft(text, "=")); signs > 0 && signs < 7 && alone && strings.HasPrefix(text[signs:], " ") {
		return textTitle{end: length, style: text[:signs+1], text: strings.Trim(text, "= ")}, true
	}
	number, name, _ := strings.Cut(text, " ")
	if depth := numberDepth(number); depth > 0 && alone && hasLetter(name) {
		return textTitle{end: length, style: numbered + strings.Repeat(".", depth), text: text}, true
	}
	if inCapitals(text) && (alone || next != strings.TrimLeft(next, " \t")) {
		return textTitle{end: length, style: capitals, text: text}, true
	}
	return t, false
}

// isRule reports whether a line consists of one punctuation character, at least three times.
func isRule(line string) bool {
	return len(line) > 2 && strings.IndexByte("=-~^*#+_", line[0]) >= 0 && strings.Trim(line, line[:1]) == ""
}

func hasLetter(s string) bool { return strings.ContainsFunc(s, unicode.IsLetter) }

// numberDepth returns how many numbers there are in 1., 1.2 or 1.2.3.; 0 for other words.
func numberDepth(word string) int {
	depth := 0
	for part := range strings.SplitSeq(strings.TrimRight(word, ".)"), ".") {
		if part == "" || len(part) > 3 || strings.Trim(part, "0123456789") != "" {
			return 0
		}
		depth++
	}
	return depth
}

// inCapitals reports whether a line has a word of at least three capitals, and no small letters.
func inCapitals(line string) bool {
	run, most := 0, 0
	for _, r := range line {
		switch {
		case unicode.IsUpper(r):
			run++
			most = max(most, run)
		case unicode.IsLetter(r):
			return false
		default:
			run = 0
		}
	}
	return most > 2 && utf8.RuneCountInString(line) <= maxTitle/2
}

// plausible reports whether there is more than one title of a style, and most have text below.
func plausible(titles []textTitle, style string) bool {
	count, followed := 0, 0
	for i, t := range titles {
		if strings.HasPrefix(t.style, style) {
			if count++; i+1 == len(titles) || titles[i+1].start > t.end || titles[i+1].style != t.style {
				followed++
			}
		}
	}
	return count > 1 && followed*2 > count
}

// level sets the levels of titles: styles are in order of their first use.
func level(titles []textTitle) {
	var styles []string
	first := 0 // titles of the first style
	for i := range titles {
		t := &titles[i]
		if t.level = slices.Index(styles, t.style) + 1; t.level == 0 {
			styles = append(styles, t.style)
			t.level = len(styles)
		}
		if t.level == 1 {
			first++
		}
	}
	if len(titles) > 0 && (first > 1 || strings.HasPrefix(titles[0].style, numbered)) {
		for i := range titles {
			titles[i].level++
		}
	}
}
