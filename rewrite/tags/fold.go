package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// openers are '<' and what is read as one. Guillemets « are not: they quote words
// of our vocabulary in honest French.
const openers = "<\uff1c\ufe64\u2039\u276e\u276c\u2770\u3008\u2329\u27e8\u29fc\u02c2\u1438\u16b2\U0001d236\u227a\u22d6"

// opens tells whether r is '<' or is read as one.
func opens(r rune) bool {
	return r == '<' || r >= utf8.RuneSelf && r != utf8.RuneError && strings.ContainsRune(openers, r)
}

// slashes tells whether r is a slash of either kind or is read as one.
func slashes(r rune) bool {
	switch r {
	case '/', '\uff0f', '\u2044', '\u2215', '\u29f8', '\u2571', '\u27cb', '\u3033',
		'\\', '\uff3c', '\ufe68', '\u2216', '\u29f5', '\u29f9', '\u2572':
		return true
	}
	return false
}

// fills tells whether r is skipped by somebody who looks for a tag: white space,
// what has no width, controls, marks on other letters, what stands for nothing.
func fills(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return unicode.IsSpace(r) || r == utf8.RuneError || r == '\u2800' ||
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.M, unicode.Other_Default_Ignorable_Code_Point)
}

// lookalikes lists, letter by letter, what is drawn like it and is no
// compatibility form of it (Unicode confusables.txt, those of living scripts).
var lookalikes = [26]string{
	'a' - 'a': "аАαΑɑᴀꓮᎪ", 'b' - 'a': "ВвΒβЬʙꓐᏴ", 'c' - 'a': "сСϲϹᴄⲥⲤꮯᏟꓚↄ", 'd' - 'a': "ԁԀᴅꓓᎠɗ",
	'e' - 'a': "еЕεΕҽєЄ℮ᴇꬲⴹᎬꓰɛəǝ", 'f' - 'a': "ϜғꓝƒẝꞘꬵ", 'g' - 'a': "ɡԍɢᏀꓖց", 'h' - 'a': "һҺНнΗʜᎻꓧհ",
	'i' - 'a': "іІιΙıɪӏӀⵏꓲ", 'j' - 'a': "јЈϳꓙᎫ", 'k' - 'a': "кКκΚᴋꓗᏦ", 'l' - 'a': "ӏӀʟꓡᏞ",
	'm' - 'a': "мМΜμᴍⲙⲘᎷꓟϻ", 'n' - 'a': "пηΝոռɴⲛⲚꓠнИи", 'o' - 'a': "оОοΟσөӨօՕᴏᴑⲟⲞꓳჿဝ๐०০〇øØ",
	'p' - 'a': "рРρΡᴘⲣⲢᏢꓑ", 'q' - 'a': "ԛԚգզ", 'r' - 'a': "гГᴦⲅꭇꭈꮁʀɾᎡᏒꓣяЯ", 's' - 'a': "ѕЅꜱƽꮪᏚՏꓢʂ", 't' - 'a': "тТτΤᴛⲧⲦᎢꓔ",
	'u' - 'a': "υսՍᴜʋцЦꭎꭒꓴሀμ", 'v' - 'a': "ѵѴνᴠꓦᏙ", 'w' - 'a': "ԝԜωᴡшШꓪᎳ", 'x' - 'a': "хХχΧꓫ", 'y' - 'a': "уУγΥүҮʏꓬ", 'z' - 'a': "ᴢΖꓜᏃ",
}

// fold returns the small ASCII letter as which r is read, or r itself.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToLower(r)
	}
	var buf [utf8.UTFMax]byte
	if d := norm.NFKD.Properties(buf[:utf8.EncodeRune(buf[:], r)]).Decomposition(); len(d) > 0 {
		r, _ = utf8.DecodeRune(d)
		if r < utf8.RuneSelf {
			return unicode.ToLower(r)
		}
	}
	return r
}

// reads tells whether r is read as the letter, a small ASCII one.
func reads(r, letter rune) bool {
	r = fold(r)
	return r == letter || r >= utf8.RuneSelf && strings.ContainsRune(lookalikes[letter-'a'], r)
}

// unit returns the first character of text, which is not empty, as a reader sees
// it who decodes references like &lt; &#60; &amp;lt; and the bytes it takes.
func unit(text string) (r rune, size int) {
	if text[0] != '&' {
		return utf8.DecodeRuneInString(text)
	}
	for i := 1; ; {
		r, size := reference(text[i:])
		if size == 0 {
			return '&', 1
		}
		if i += size; r != '&' {
			return r, i
		}
	}
}

// named lists the references that matter in a tag, in lower case.
var named = [...]struct {
	name string
	r    rune
}{
	{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"sol", '/'}, {"bsol", '\\'},
	{"nbsp", ' '}, {"tab", '\t'}, {"newline", '\n'}, {"ensp", ' '}, {"emsp", ' '}, {"thinsp", ' '}, {"shy", '\u00ad'},
	{"zerowidthspace", '\u200b'}, {"zwnj", '\u200c'}, {"zwj", '\u200d'}, {"nobreak", '\u2060'},
	{"lrm", '\u200e'}, {"rlm", '\u200f'}, {"lsaquo", '‹'}, {"langle", '⟨'}, {"lang", '⟨'},
}

// reference reads what stands behind an ampersand, in any case and with or
// without its semicolon. size is 0 if it is no reference.
func reference(text string) (r rune, size int) {
	switch {
	case text == "" || text[0] != '#' && !unicode.IsLetter(rune(text[0])):
		return 0, 0
	case text[0] == '#':
		r, size = number(text)
	default:
		for _, n := range named {
			if len(text) >= len(n.name) && strings.EqualFold(text[:len(n.name)], n.name) {
				r, size = n.r, len(n.name)
				break
			}
		}
	}
	if size > 0 && size < len(text) && text[size] == ';' {
		size++
	}
	return r, size
}

// number reads "#60" or "#x3c".
func number(text string) (r rune, size int) {
	i, base := 1, rune(10)
	if len(text) > 1 && text[1]|0x20 == 'x' {
		i, base = 2, 16
	}
	from := i
	for ; i < len(text); i++ {
		digit := rune(text[i]) - '0'
		if letter := rune(text[i]|0x20) - 'a' + 10; base == 16 && letter >= 10 && letter < 16 {
			digit = letter
		} else if digit < 0 || digit > 9 {
			break
		}
		r = min(r*base+digit, unicode.MaxRune+1)
	}
	if i == from {
		return 0, 0
	}
	return r, i
}
