package chat

import (
	"encoding/binary"
	"math/bits"
)

// str reads a string and returns its span, quotes included. escaped reports whether it contains a
// backslash.
func (s *scanner) str() (v Span, escaped bool) {
	if s.err != nil {
		return Span{}, false
	}
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.expected("a string")
		return Span{}, false
	}
	start := s.i
	s.i++
	for {
		var seen marks
		s.i, seen = inside(s.b, s.i)
		s.seen |= seen
		escaped = escaped || seen&(markEscape|markCode) != 0
		if s.i >= len(s.b) {
			s.expected("the end of a string")
			return Span{}, false
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			return Span{start, s.i}, escaped
		case '\\':
			escaped = true
			if s.escape(); s.err != nil {
				return Span{}, false
			}
		default:
			s.fail(NotJSON, "body is not JSON: control character %#02x in a string at byte %d", s.b[s.i], s.i)
			return Span{}, false
		}
	}
}

// unescapedLen returns the number of bytes of s before the first quote, backslash or control
// character. The compiler turns the eight bytes into one load.
func unescapedLen[text []byte | string](s text) int {
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if hit := special(w); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// The lowest and the top bit of each byte of a word.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// special sets the top bit of the first byte of w that is a quote, a backslash or a control
// character; bits above that one are meaningless. A byte x is below n if x - n borrows into its
// top bit and x had no top bit (Warren, Hacker's Delight, §6-1). With its second bit flipped, a
// quote comes right above the control characters and nothing else does, so one subtraction finds
// both.
func special(w uint64) uint64 {
	low, slash := w^(ones*0x02), w^(ones*'\\')
	return ((low - ones*('"'^0x02+1)) | (slash - ones)) & tops &^ w
}

// shortEscapes holds the bytes that follow a backslash in an escape of two bytes.
var shortEscapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape reads one escape sequence, or two that form a surrogate pair.
func (s *scanner) escape() {
	at := s.i
	r, ok := s.escapedRune()
	if !ok {
		return
	}
	if r < 0xD800 || r > 0xDFFF {
		return
	}
	if r < 0xDC00 && s.i+1 < len(s.b) && s.b[s.i] == '\\' && s.b[s.i+1] == 'u' {
		second := s.i
		low, ok := s.escapedRune()
		if !ok {
			return
		}
		if low >= 0xDC00 && low <= 0xDFFF {
			return
		}
		s.i = second // not the other half: read it again as a character of its own
	}
	s.loneSurrogate = at
}

// escapedRune reads one escape sequence and returns its rune, which may be half of a surrogate
// pair.
func (s *scanner) escapedRune() (r rune, ok bool) {
	const want = "an escape sequence"
	if s.i++; s.i >= len(s.b) {
		s.expected(want)
		return 0, false
	}
	c := s.b[s.i]
	if shortEscapes[c] {
		s.i++
		return rune(c), true
	}
	if c == 'u' && len(s.b)-s.i >= 5 {
		s.seen |= markCode
		if r, ok := hex4(s.b[s.i+1 : s.i+5]); ok {
			s.i += 5
			return r, true
		}
	}
	s.expected(want)
	return 0, false
}

// hexDigits holds the value of each hexadecimal digit, and 0xff for every other byte.
var hexDigits = func() (t [256]uint8) {
	for b := range t {
		t[b] = 0xff
	}
	for _, digits := range [...]string{"0123456789abcdef", "0123456789ABCDEF"} {
		for v, b := range []byte(digits) {
			t[b] = uint8(v)
		}
	}
	return t
}()

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	_ = b[3]
	a, c, d, e := hexDigits[b[0]], hexDigits[b[1]], hexDigits[b[2]], hexDigits[b[3]]
	if a|c|d|e > 0xf {
		return 0, false
	}
	return rune(a)<<12 | rune(c)<<8 | rune(d)<<4 | rune(e), true
}
