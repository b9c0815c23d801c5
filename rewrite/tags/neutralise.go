package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version names what Neutralise makes of texts: change it with that, so that texts
// which were neutralised otherwise are told apart.
const Version = "2"

// disarmed stands in place of a look-alike's opening bracket: plain, readable,
// and unlike &lt; nothing that decoding turns back into a bracket.
const disarmed = "["

// Neutralise is Vocabulary.Neutralise for our own tags.
func Neutralise(text string, all bool) (string, int) { return ours.Neutralise(text, all) }

// Neutralise makes text safe to stand between our tags and returns how many
// look-alikes it disarmed: "</source>" becomes "[/source>". all also escapes every
// other '<' as "&lt;". Everything else stays, code included, but
//   - C0 and C1 controls other than tab and line feed, bidirectional controls and
//     Unicode tag characters go; a carriage return is a line break;
//   - bytes that are no UTF-8 become U+FFFD.
//
// Text that needs no change is returned as it is, without allocating. Neutralising
// twice is neutralising once, and Scan finds nothing in the result.
func (v *Vocabulary) Neutralise(text string, all bool) (string, int) {
	text = clean(text)
	var out strings.Builder
	copied, found := 0, 0
	for t := (tag{}); v.next(&t, text); found++ {
		if found == 0 {
			out.Grow(len(text))
		}
		escape(&out, text[copied:t.start], all)
		out.WriteString(disarmed)
		copied = t.open
	}
	if found == 0 && (!all || strings.IndexByte(text, '<') < 0) {
		return text, 0
	}
	escape(&out, text[copied:], all)
	return out.String(), found
}

// escape copies text, with '<' as &lt; if all.
func escape(out *strings.Builder, text string, all bool) {
	for all {
		before, after, ok := strings.Cut(text, "<")
		if !ok {
			break
		}
		out.WriteString(before)
		out.WriteString("&lt;")
		text = after
	}
	out.WriteString(text)
}

// clean removes what has no place in a text, whatever it is about.
func clean(text string) string {
	if !utf8.ValidString(text) {
		text = string([]rune(text)) // each bad byte is a U+FFFD
	}
	var out strings.Builder
	copied := 0
	for i := 0; ; {
		i += skip(text[i:], &unclean)
		if i == len(text) {
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if with, dirty := replacement(r, text[i+size:]); dirty {
			if copied == 0 {
				out.Grow(len(text))
			}
			out.WriteString(text[copied:i])
			out.WriteString(with)
			copied = i + size
		}
		i += size
	}
	if copied == 0 {
		return text
	}
	out.WriteString(text[copied:])
	return out.String()
}

// replacement returns what stands for a rune that may not stay. Of ASCII only controls
// come here.
func replacement(r rune, rest string) (with string, dirty bool) {
	switch {
	case r == '\r' && !strings.HasPrefix(rest, "\n"):
		return "\n", true
	case r < 0xa0, hidden(r):
		return "", true
	}
	return "", false
}

// hidden tells whether r is a bidirectional control or a Unicode tag character:
// it changes what people see, or hides text from them.
func hidden(r rune) bool {
	return unicode.Is(unicode.Bidi_Control, r) || r >= 0xe0000 && r <= 0xe007f
}
