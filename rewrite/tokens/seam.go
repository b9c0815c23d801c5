package tokens

import (
	"unicode"
	"unicode/utf8"
)

// A text may be cut where every encoding's pre-tokenizer ends one piece and starts the next,
// whatever surrounds the place. Counts of the two sides add up exactly there, because a token
// never spans two pieces. The rules below are derived from the four patterns of OpenAI's tiktoken
// (openai_public.py) and keep only cuts that hold in all of them:
//
//	o200k   [^\r\n\p{L}\p{N}]?(letters and marks)('s|'t|'re|'ve|'m|'ll|'d)?
//	cl100k  's|'t|'re|'ve|'m|'ll|'d  and  [^\r\n\p{L}\p{N}]?\p{L}+
//	both    \p{N}{1,3}   ?[^\s\p{L}\p{N}]+[\r\n/]*  (cl100k: [\r\n]*)
//	        \s*[\r\n]+  \s+(?!\S)  \s+
//	p50k    's… | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
type class uint8

const (
	invalid    class = iota // invalid UTF-8, or the edge of the text: never a cut
	letter                  // \p{L}
	mark                    // \p{M}: part of a word in o200k, punctuation elsewhere
	digit                   // \p{N}
	space                   // \s without line breaks
	newline                 // \r \n
	slash                   // ends a punctuation piece together with line breaks (o200k)
	apostrophe              // may begin a contraction
	other                   // everything else
	classes
)

// A verdict says whether a text may be cut between two classes.
type verdict uint8

const (
	never           verdict = iota
	always                  // a cut
	unlessContinued         // a cut unless a contraction may follow the apostrophe
	afterOneBreak           // a cut if there is no white space before the line break
)

// verdicts is indexed by the classes before and after the place.
var verdicts = [classes][classes]verdict{
	letter: {digit: always, space: always, newline: always, slash: always, other: always, apostrophe: unlessContinued},
	mark:   {digit: always, space: always},
	digit:  {letter: always, space: always, newline: always, slash: always, apostrophe: always, other: always},
	// There is no cut before a mark: it belongs to the rune before it. p50k separates the last of
	// several white space characters if a word follows, and keeps them together at the end of a
	// text.
	newline:    {letter: afterOneBreak, digit: afterOneBreak, apostrophe: afterOneBreak, other: afterOneBreak},
	slash:      {digit: always, space: always},
	apostrophe: {digit: always, space: always},
	other:      {digit: always, space: always},
}

// ascii holds the class of each ASCII byte.
var ascii = func() (t [utf8.RuneSelf]class) {
	for b := range t {
		switch r := rune(b); {
		case unicode.IsLetter(r):
			t[b] = letter
		case unicode.IsDigit(r):
			t[b] = digit
		case r == '\n' || r == '\r':
			t[b] = newline
		case unicode.IsSpace(r):
			t[b] = space
		case r == '/':
			t[b] = slash
		case r == '\'':
			t[b] = apostrophe
		default:
			t[b] = other
		}
	}
	return t
}()

// classOf returns the class of a rune that is not ASCII.
func classOf(r rune) class {
	switch k := runes().of(r); {
	case k&letters != 0:
		return letter
	case k == combining:
		return mark
	case k == number:
		return digit
	case k == blank:
		return space
	}
	return other
}

// first returns the class and size of text's first rune.
func first(text string) (class, int) {
	if text == "" {
		return invalid, 0
	}
	if text[0] < utf8.RuneSelf {
		return ascii[text[0]], 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && size == 1 {
		return invalid, 1
	}
	return classOf(r), size
}

// last returns the class and size of text's last rune.
func last(text string) (class, int) {
	if text == "" {
		return invalid, 0
	}
	if b := text[len(text)-1]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	r, size := utf8.DecodeLastRuneInString(text)
	if r == utf8.RuneError && size == 1 {
		return invalid, 1
	}
	return classOf(r), size
}

// splits reports whether there is a cut between the classes before and after. older is the class
// in front of before; rest is the text from after on.
func splits(older, before, after class, rest string) bool {
	switch verdicts[before][after] {
	case always:
		return true
	case unlessContinued:
		return !contraction(rest)
	case afterOneBreak:
		return older != space && older != newline && older != invalid
	}
	return false
}

// contraction reports whether text, which begins with an apostrophe, could begin with 's 't 're
// 've 'm 'll or 'd in any letter case, possibly together with text appended later.
func contraction(text string) bool {
	if len(text) < 2 {
		return true
	}
	switch text[1] | 0x20 {
	case 's', 't', 'r', 'v', 'm', 'l', 'd':
		return true
	}
	return text[1] >= utf8.RuneSelf
}

// mayCut reports whether left+right may be cut between the two.
func mayCut(left, right string) bool {
	before, size := last(left)
	after, _ := first(right)
	if verdicts[before][after] == never {
		return false
	}
	older, _ := last(left[:len(left)-size])
	return splits(older, before, after, right)
}

// meetAtSeam reports whether left and right meet at a seam, a cut at white space, so that the
// count of either does not depend on the other.
func meetAtSeam(left, right string) bool {
	before, _ := last(left)
	after, _ := first(right)
	return atWhite(before, after) && mayCut(left, right)
}

func atWhite(before, after class) bool {
	return before == newline || after == space || after == newline
}

// seamSearch is how many bytes are searched for a seam at white space before another cut is
// accepted: in scripts without spaces a line can be long.
const seamSearch = 1 << 10

// lastSeam returns the offset of a cut near the end of text, 0 if there is none. It prefers a cut
// at white space, so that counts also add up with a Counter that counts words, as those of tests
// do.
func lastSeam(text string) int {
	i, _ := lastSeamBehind(text, 0)
	return i
}

// lastSeamBehind is lastSeam for a text known to have no cut in its first free bytes. bare
// reports that there is no cut after the result either.
func lastSeamBehind(text string, free int) (at int, bare bool) {
	second, after := 0, invalid
	before, size := last(text)
	for i := len(text); i > free; {
		older, next := last(text[:i-size])
		if splits(older, before, after, text[i:]) {
			if atWhite(before, after) {
				return i, second == 0
			}
			second = max(second, i)
		}
		if second > 0 && len(text)-i > seamSearch {
			return second, true
		}
		i -= size
		before, after, size = older, before, next
	}
	if second > 0 && len(text) > seamSearch {
		return second, true
	}
	return 0, second == 0
}

// firstSeam returns the offset of a cut near the start of text, or the length of text if there is
// none. Like lastSeam it prefers white space.
func firstSeam(text string) int {
	second := len(text)
	older, before := invalid, invalid
	for i := 0; i < len(text); {
		after, size := first(text[i:])
		if splits(older, before, after, text[i:]) {
			if atWhite(before, after) {
				return i
			}
			second = min(second, i)
		}
		if second < len(text) && i > seamSearch {
			return second
		}
		older, before = before, after
		i += size
	}
	return len(text)
}
