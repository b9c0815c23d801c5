package tags

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// maxReference is how many letters and digits of a named reference are read. The longest name in
// HTML has 31.
const maxReference = 32

// maxBare is the length of the longest name that HTML accepts without a semicolon.
const maxBare = 6

// nextChar returns the first character of text, which must not be empty, after decoding character
// references, also nested ones: &lt; &#60; &amp;lt;. size is the number of bytes consumed.
func nextChar(text string) (r rune, size int) {
	if text[0] != '&' {
		return utf8.DecodeRuneInString(text)
	}
	for i := 1; ; {
		i += widthless(text[i:])
		r, size := reference(text[i:])
		if size == 0 {
			return '&', 1
		}
		if i += size; r != '&' {
			return r, i
		}
	}
}

// widthless returns how many bytes at the start of text are invisible. Tolerant readers skip them
// even inside a reference: "&lt\u200b;".
func widthless(text string) int {
	for i, r := range text {
		if !isFiller(r) || unicode.IsSpace(r) {
			return i
		}
	}
	return len(text)
}

// reference reads a character reference after its ampersand, in any letter case and, where HTML
// allows it, without the semicolon. size is 0 if there is none.
func reference(text string) (r rune, size int) {
	if text != "" && text[0] == '#' {
		return number(text)
	}
	var name [maxReference]byte // the reference's name in lower case
	var ends [maxReference]int  // the end of each of its characters
	n := 0
	for i := 0; i < len(text) && n < maxReference && alphanumeric(text[i]); n++ {
		name[n], ends[n] = text[i]|0x20, i+1 // digits have that bit anyway
		i++
		i += widthless(text[i:])
	}
	if n == 0 {
		return 0, 0
	}
	if end, ok := semicolon(text, ends[n-1]); ok {
		if r, known := references[string(name[:n])]; known {
			return r, end
		}
	}
	for n = min(n, maxBare); n > 0; n-- {
		if r, known := bare[string(name[:n])]; known {
			end, _ := semicolon(text, ends[n-1])
			return r, end
		}
	}
	return 0, 0
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}

// semicolon returns the end of a reference whose name or number ends at i, and reports whether it
// ends with a semicolon.
func semicolon(text string, i int) (end int, ok bool) {
	if at := i + widthless(text[i:]); strings.HasPrefix(text[at:], ";") {
		return at + 1, true
	}
	return i, false
}

// number reads "#60" or "#x3c".
func number(text string) (r rune, size int) {
	i, base := 1, 10
	i += widthless(text[i:])
	if i < len(text) && text[i]|0x20 == 'x' {
		i, base = i+1, 16
	}
	digits, end := false, i
	for {
		i += widthless(text[i:])
		if i == len(text) || !alphanumeric(text[i]) {
			break
		}
		digit, err := strconv.ParseUint(text[i:i+1], base, 8)
		if err != nil {
			break
		}
		r = min(r*rune(base)+rune(digit), unicode.MaxRune+1)
		i++
		digits, end = true, i
	}
	if !digits {
		return 0, 0
	}
	if r < 0xa0 { // HTML reads these numbers as Windows-1252
		r = charmap.Windows1252.DecodeByte(byte(r))
	}
	end, _ = semicolon(text, end)
	return r, end
}
