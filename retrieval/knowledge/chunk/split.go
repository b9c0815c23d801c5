package chunk

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A splitter cuts a text into parts whose concatenation is the text.
type splitter func(text string) []string

// opens reports whether the first line of a block is useless without what follows, if the splitter
// of this depth cuts at lines: the fence of a listing or, in prose, the first line of an overlong
// sentence, which may be a term before its definition.
func (b *block) opens(depth int) bool {
	if b.lined {
		return depth == 0 && b.tail != ""
	}
	return depth == 1
}

// splittersOf returns the splitters for a block in the order to try: prose is cut at sentences
// first, everything else at lines.
func splittersOf(b block) [3]splitter {
	if b.lined {
		return [...]splitter{splitLines, splitSentences, splitRunes}
	}
	return [...]splitter{splitSentences, splitLines, splitRunes}
}

func splitLines(text string) []string { return slices.Collect(strings.Lines(text)) }

// splitSentences cuts at the ends of sentences: after . ! ? … and closing quotes followed by white
// space, and after 。！？. Spaces go to the next sentence, a line break to the previous one.
func splitSentences(text string) (parts []string) {
	start := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		full := strings.ContainsRune("。！？｡", r)
		if !full && !strings.ContainsRune(".!?…", r) {
			continue
		}
		for i < len(text) {
			r, n := utf8.DecodeRuneInString(text[i:])
			if !strings.ContainsRune(".!?…。！？｡\"')]*_”’»」』）", r) {
				break
			}
			i += n
		}
		next, _ := utf8.DecodeRuneInString(text[i:])
		if i < len(text) && !full && !unicode.IsSpace(next) {
			continue
		}
		blanks := len(text[i:]) - len(strings.TrimLeft(text[i:], " \t"))
		if j := i + blanks; strings.HasPrefix(text[j:], "\n") {
			i = j + 1
		}
		parts = append(parts, text[start:i])
		start = i
	}
	if start < len(text) {
		parts = append(parts, text[start:])
	}
	return parts
}

// runLength is the approximate length, in bytes, of the parts of a text without structure. It is
// long enough that few tokens are cut.
const runLength = 128

// splitRunes cuts between any two characters, after white space if possible.
func splitRunes(text string) (parts []string) {
	for len(text) > runLength {
		n := strings.LastIndexAny(text[:runLength], " \t") + 1
		if n == 0 {
			for n = runLength; n > 0 && !utf8.RuneStart(text[n]); n-- {
			}
		}
		if n == 0 {
			n = runLength
		}
		parts, text = append(parts, text[:n]), text[n:]
	}
	return append(parts, text)
}
