package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version identifies the behaviour of Neutralise. Increment it with every change, so that texts
// neutralised by an older version can be recognised.
const Version = "3"

// disarmedBracket replaces the opening bracket of a look-alike. It is readable and, unlike &lt;,
// decoding does not turn it into a bracket again.
const disarmedBracket = "["

// Neutralise makes text safe between Sidenote's tags and returns how many look-alikes it changed:
// "</source>" becomes "[/source>". It also changes tokens of chat templates: "<|im_start|>"
// becomes "[|im_start|>", and "[INST]" becomes "(INST]". With all it escapes every other '<' as
// "&lt;". Everything else is unchanged, code included, except that
//   - C0 and C1 controls other than tab and line feed, bidirectional controls and
//     Unicode tag characters are removed; a carriage return becomes a line break;
//   - bytes that are not UTF-8 become U+FFFD.
//
// Text that needs no change is returned without allocating. Neutralising a result again changes
// nothing, and Count finds nothing in it.
func (v Vocabulary) Neutralise(text string, all bool) (safe string, found int) {
	text = clean(text)
	for n := 0; ; n += found {
		text, found = v.disarm(text, all)
		if found == 0 {
			return text, n
		}
		// A replacement bracket may begin another token: </inst] where inst is a tag.
	}
}

// disarm replaces the brackets of look-alikes, and with all escapes every other '<'.
func (v Vocabulary) disarm(text string, all bool) (string, int) {
	var out strings.Builder
	copied, found := 0, 0
	for t := (tag{}); v.next(&t, text); found++ {
		if found == 0 {
			out.Grow(len(text))
		}
		escape(&out, text[copied:t.start], all)
		out.WriteString(t.with)
		copied = t.open
	}
	if found == 0 && (!all || strings.IndexByte(text, '<') < 0) {
		return text, 0
	}
	escape(&out, text[copied:], all)
	return out.String(), found
}

// escape appends text to out, with '<' as &lt; if all is set.
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

// clean removes the characters that are not allowed in any text (see Neutralise).
func clean(text string) string {
	if !utf8.ValidString(text) {
		text = string([]rune(text)) // each invalid byte becomes U+FFFD
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

// replacement returns the replacement of r; dirty is false if r is kept. The only ASCII
// characters passed to it are controls.
func replacement(r rune, rest string) (with string, dirty bool) {
	switch {
	case r == '\r' && !strings.HasPrefix(rest, "\n"):
		return "\n", true
	case r < 0xa0, hidden(r):
		return "", true
	}
	return "", false
}

// hidden reports whether r is a bidirectional control, which changes what people see, or a
// Unicode tag character, which hides text from them.
func hidden(r rune) bool {
	return unicode.Is(unicode.Bidi_Control, r) || r >= 0xe0000 && r <= 0xe007f
}
