package tokens

import (
	"math/bits"
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

// joints tells where a token may span two neighbouring runes of a piece. Everywhere else the
// piece can be cut and its parts encoded separately, because merging never makes a byte pair that
// no token contains. In Chinese text seven in eight places are such cuts. Between two ASCII
// characters nearly any pair is in some token, so these are not looked up.
type joints struct {
	runes   []uint64 // a bit for the hash of each two runes that some token contains whole
	partial []uint64 // a bit for each two bytes that meet in a token between runes of which it contains only a part
}

func newJoints(v *vocabulary) joints {
	j := joints{runes: make([]uint64, 1<<20/64), partial: make([]uint64, 1<<16/64)}
	for id := range uint32(len(v.offsets) - 1) {
		j.add(v.bytes(id))
	}
	return j
}

// add adds the pairs of runes that meet inside a token.
func (j joints) add(token []byte) {
	for start, i := 0, 1; i < len(token); i++ {
		if continues(token[i]) {
			continue
		}
		size := width(token[i])
		switch left := token[start:i]; {
		case len(left) == 1 && size == 1:
		case continues(left[0]) || i+size > len(token):
			set(j.partial, uint64(token[i-1])<<8|uint64(token[i]))
		default:
			set(j.runes, meeting(packed(left), packed(token[i:i+size])))
		}
		start = i
	}
}

// mayJoin reports whether a token may contain the end of left, a rune whose last byte is last,
// and the beginning of right, a rune whose first byte is first.
func (j joints) mayJoin(left, right uint32, last, first byte) bool {
	at := meeting(left, right)
	if j.runes[at/64]>>(at%64)&1 != 0 {
		return true
	}
	both := uint64(last)<<8 | uint64(first)
	return j.partial[both/64]>>(both%64)&1 != 0
}

func set(bits []uint64, at uint64) { bits[at/64] |= 1 << (at % 64) }

func meeting(left, right uint32) uint64 {
	return uint64(spread(uint64(left)<<32|uint64(right), 1<<20))
}

func packed(rune []byte) (r uint32) {
	for _, b := range rune {
		r = r<<8 | uint32(b)
	}
	return r
}

func continues(b byte) bool { return b&0xc0 == 0x80 }

// width returns the length of the UTF-8 sequence that begins with b.
func width(b byte) int {
	return max(1, bits.LeadingZeros8(^b))
}

// parts encodes piece, which is not a token itself, part by part.
func (c *coder) parts(piece string) {
	start := 0
	var left uint32
	for at := 0; at < len(piece); {
		size := width(piece[at])
		right := uint32(piece[at])
		for k := 1; k < size; k++ {
			right = right<<8 | uint32(piece[at+k])
		}
		if at > start && left|right >= utf8.RuneSelf && !c.joints.mayJoin(left, right, piece[at-1], piece[at]) {
			c.part(piece[start:at])
			start = at
		}
		left = right
		at += size
	}
	if start == 0 {
		c.merge(piece)
		return
	}
	c.part(piece[start:])
}

// part encodes a part of a piece. Like a piece, it is looked up first: merging the bytes of a
// token always makes that token.
func (c *coder) part(text string) {
	if id := c.find(text); id != none {
		c.token(id)
		return
	}
	c.merge(text)
}
