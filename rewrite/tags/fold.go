package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// openers are '<' and the characters that look like it. Guillemets « are not included: French
// text quotes words with them, and a quoted word may be one of the names.
const openers = "<\uff1c\ufe64\u2039\u276e\u276c\u2770\u3008\u2329\u27e8\u29fc\u02c2\u1438\u16b2\U0001d236\u227a\u22d6"

// isOpener reports whether r is '<' or looks like it.
func isOpener(r rune) bool { return strings.ContainsRune(openers, r) }

// isSlash reports whether r is a slash or backslash, or looks like one.
func isSlash(r rune) bool {
	switch r {
	case '/', '\uff0f', '\u2044', '\u2215', '\u29f8', '\u2571', '\u27cb', '\u3033',
		'\\', '\uff3c', '\ufe68', '\u2216', '\u29f5', '\u29f9', '\u2572':
		return true
	}
	return false
}

// isFiller reports whether a tolerant reader skips r inside a tag: white space, characters
// without width, controls, combining marks, and the replacement character.
func isFiller(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return unicode.IsSpace(r) || r == utf8.RuneError || r == '\u2800' ||
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.M, unicode.Other_Default_Ignorable_Code_Point)
}

// fold returns r in the form used for comparison: lower case, without the marks and variants that
// Unicode's compatibility decomposition removes.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return lower(r)
	}
	var buf [utf8.UTFMax]byte
	if d := norm.NFKD.Properties(buf[:utf8.EncodeRune(buf[:], r)]).Decomposition(); len(d) > 0 {
		r, _ = utf8.DecodeRune(d)
	}
	return unicode.ToLower(r)
}

// lower returns an ASCII character in lower case.
func lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		r += 'a' - 'A'
	}
	return r
}

// readsAs reports whether r may be read as letter, which is a result of fold.
func readsAs(r, letter rune) bool {
	if r < utf8.RuneSelf {
		return lower(r) == letter
	}
	plain := fold(r)
	if plain == letter || letter < 'a' || letter > 'z' {
		return plain == letter
	}
	like := lookalikes[letter-'a']
	return strings.ContainsRune(like, r) || strings.ContainsRune(like, plain)
}
