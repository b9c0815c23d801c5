package chat

import (
	"bytes"
	"math/bits"
)

// marks are the kinds of bytes seen in strings. The assembly code uses their values.
type marks uint8

const (
	markEscape marks = 1 << iota // escapes of two bytes
	markWide                     // non-ASCII bytes
	markTag                      // bytes that may begin a tag
	markCode                     // \u escapes
)

// inside scans the text of a string from i on and returns where it meets a quote, a control
// character, or an escape that is invalid or a lone surrogate, and the marks seen before that.
// markEscape and markCode are exact; markWide and markTag may come from bytes after that place,
// in the same step.
func inside(b []byte, i int) (at int, seen marks) {
	at = i
	if vectors && len(b)-i >= stepSize {
		w := word(b[i:])
		if hit := special(w); hit != 0 { // most keys and roles end in their first word
			if at := i + bits.TrailingZeros64(hit)/8; b[at] != '\\' {
				return at, marksOf(w & (hit&-hit - 1))
			}
		}
		if at, seen = insideVectors(b, i); len(b)-at > stepSize {
			return at, seen
		}
	}
	end, more := insideWords(b, at)
	if mayTag(b[at:end]) {
		more |= markTag
	}
	return end, seen | more
}

// stepSize is how many bytes the vector code reads in one step.
const stepSize = 64

// marksOf returns markWide and markTag of the bytes of a word.
func marksOf(w uint64) marks {
	open, and := w^(ones*'<'), w^(ones*'&')
	if ((open-ones)&^open|(and-ones)&^and)&tops != 0 {
		return markTag | wide(w)
	}
	return wide(w)
}

// mayTag reports whether b contains a byte that may begin a tag.
func mayTag(b []byte) bool { return bytes.IndexByte(b, '<') >= 0 || bytes.IndexByte(b, '&') >= 0 }

// insideWords is inside without vector instructions, eight bytes per step. It does not set
// markTag.
func insideWords(b []byte, i int) (at int, seen marks) {
	var all uint64
	for len(b)-i >= 9 {
		w := word(b[i:])
		hit := special(w)
		if hit == 0 {
			all |= w
			i += 8
			continue
		}
		all |= w & (hit&-hit - 1)
		i += bits.TrailingZeros64(hit) / 8
		if b[i] != '\\' {
			return i, seen | wide(all)
		}
		size, mark := simpleEscape(b[i:])
		if size == 0 {
			return i, seen | wide(all)
		}
		i, seen = i+size, seen|mark
	}
	for ; i < len(b); i++ {
		c := b[i]
		if c == '"' || c < 0x20 {
			return i, seen | wide(all)
		}
		if c == '\\' {
			size, mark := simpleEscape(b[i:])
			if size == 0 {
				return i, seen | wide(all)
			}
			i, seen = i+size-1, seen|mark
			continue
		}
		all |= uint64(c)
	}
	return i, seen | wide(all)
}

// simpleEscape returns the size and mark of the escape at the start of b: one of two bytes, a \u
// escape, or a surrogate pair of these. The size is 0 if there is none.
func simpleEscape(b []byte) (size int, mark marks) {
	switch {
	case len(b) < 2:
	case shortEscapes[b[1]]:
		return 2, markEscape
	case b[1] == 'u' && len(b) >= 6:
		r, ok := hex4(b[2:6])
		switch {
		case !ok:
		case r < 0xd800 || r > 0xdfff:
			return 6, markCode
		case r < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u':
			if low, ok := hex4(b[8:12]); ok && low >= 0xdc00 && low <= 0xdfff {
				return 12, markCode
			}
		}
	}
	return 0, 0
}

// wide returns markWide if a word contains a non-ASCII byte.
func wide(w uint64) marks {
	if w&tops != 0 {
		return markWide
	}
	return 0
}
