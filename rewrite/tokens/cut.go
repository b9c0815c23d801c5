package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longWord is a length in bytes: a longer stretch without a seam, such as a clause in Chinese, is
// cut inside.
const longWord = 64

// Cut returns a long prefix of text with at most max tokens by c; "" if max is not positive. It
// ends at a seam if possible, and at the end of a sentence or line if there is one in the last
// tenth of the prefix. It never ends inside a rune or before a combining mark.
func Cut(c Counter, text string, max int) string {
	if max <= 0 {
		return ""
	}
	fits := func(end int) bool {
		n, _ := CountUpTo(c, text[:end], max)
		return n <= max
	}
	n, high := CountUpTo(c, text, max)
	if n <= max {
		return text
	}
	end := longest(c, text, high, max)
	for end > 0 && !fits(end) { // only with a Counter whose counts do not add up at seams
		end = lastSeam(text[:end])
	}
	for e, tries := end, 8; e >= end-end/10 && e > 0 && tries > 0; e = runeBefore(text, e) {
		if !sentenceEnds(text, e) {
			continue
		}
		if fits(e) {
			return text[:e]
		}
		tries--
	}
	return text[:end]
}

// CountUpTo counts text; end is where it stopped. If c has a method CountUpTo, it stops once the
// count exceeds max, so that the time Cut takes depends on the length of its result, not of its
// input.
func CountUpTo(c Counter, text string, max int) (n, end int) {
	if c, ok := c.(interface {
		CountUpTo(text string, limit int) (n, end int)
	}); ok {
		return c.CountUpTo(text, max)
	}
	n, _ = c.Count(text)
	return n, len(text)
}

// longest returns the length of the longest prefix of text below high that has at most max tokens
// and ends at a seam, or inside a long stretch without one. Each step counts only the text after
// the last seam known to fit.
func longest(c Counter, text string, high, max int) int {
	low, spent := 0, 0
	for low < high {
		at := seamBetween(text, low, high)
		if at == low || at == high {
			break
		}
		if n, _ := CountUpTo(c, text[low:at], max-spent); spent+n <= max {
			low, spent = at, spent+n
		} else {
			high = at
		}
	}
	if low > 0 && high-low <= longWord {
		return low
	}
	inside, over := low, high
	for {
		at := graphemeStart(text, inside, inside+(over-inside)/2)
		if at <= inside {
			return inside
		}
		if n, _ := CountUpTo(c, text[low:at], max-spent); spent+n <= max {
			inside = at
		} else {
			over = at
		}
	}
}

// seamBetween returns a seam of text between low and high, near their middle; low or high if
// there is none.
func seamBetween(text string, low, high int) int {
	middle := low + (high-low)/2
	if at := lastSeam(text[low:middle]); at > 0 {
		return low + at
	}
	return low + firstSeam(text[low:high])
}

// graphemeStart returns the last offset in (low, at] where a rune begins that does not belong to
// the rune before it; low if there is none.
func graphemeStart(text string, low, at int) int {
	for ; at > low; at = runeBefore(text, at) {
		r, _ := utf8.DecodeRuneInString(text[at:])
		prev, _ := utf8.DecodeLastRuneInString(text[:at])
		if utf8.RuneStart(text[at]) && !unicode.IsMark(r) && r != joiner && prev != joiner {
			return at
		}
	}
	return low
}

// joiner is U+200D ZERO WIDTH JOINER, which joins two emoji into one.
const joiner = '\u200d'

// runeBefore returns the offset of the rune that ends at at, or that contains at.
func runeBefore(text string, at int) int {
	at--
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// sentenceEnds reports whether text[:at] ends a sentence, or a line without its line break.
func sentenceEnds(text string, at int) bool {
	rest := strings.TrimPrefix(text[at:], "\r")
	if strings.HasPrefix(rest, "\n") {
		return true
	}
	next, _ := utf8.DecodeRuneInString(rest)
	r, size := utf8.DecodeLastRuneInString(text[:at])
	switch r {
	case '。', '！', '？', '…':
		return !unicode.IsMark(next)
	case '"', '\'', ')', ']', '”', '’':
		r, _ = utf8.DecodeLastRuneInString(text[:at-size])
	}
	return strings.ContainsRune(".!?", r) && (rest == "" || unicode.IsSpace(next))
}
