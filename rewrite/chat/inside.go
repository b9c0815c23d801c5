package chat

import "math/bits"

// marks are the kinds of bytes seen in strings.
type marks uint8

const (
	markEscape marks = 1 << iota // escapes of two bytes
	markWide                     // non-ASCII bytes
	markCode                     // \u escapes
)

// stepSize is how many bytes inside reads in one step.
const stepSize = 64

// inside scans the text of a string from i on and returns where it meets a quote, a control
// character, or an escape that is invalid or a lone surrogate, and the marks seen before that.
// markEscape and markCode are exact; markWide may come from bytes after that place, in the same
// step.
//
// It collects the special bytes of a step in one mask before it branches: where the next escape
// is cannot be predicted, so a branch for each word of eight bytes takes a third longer. The mask
// may also have bytes that are not special; see special.
func inside(b []byte, i int) (at int, seen marks) {
	if len(b)-i >= 8 { // most keys and roles end in their first word
		w := word(b[i:])
		if hit := special(w); hit != 0 {
			if at := i + bits.TrailingZeros64(hit)/8; b[at] != '\\' {
				return at, wide(w & (hit&-hit - 1))
			}
		}
	}
	var all uint64
	for len(b)-i > stepSize {
		s := b[i : i+stepSize : i+stepSize]
		w0, w1, w2, w3 := word(s), word(s[8:]), word(s[16:]), word(s[24:])
		w4, w5, w6, w7 := word(s[32:]), word(s[40:]), word(s[48:]), word(s[56:])
		all |= w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7
		mask := gather(special(w0)) | gather(special(w1))<<8 | gather(special(w2))<<16 | gather(special(w3))<<24 |
			gather(special(w4))<<32 | gather(special(w5))<<40 | gather(special(w6))<<48 | gather(special(w7))<<56
		next := i + stepSize
		for mask != 0 {
			k := bits.TrailingZeros64(mask)
			at := i + k
			c := b[at]
			if c == '\\' {
				size, mark := 2, markEscape
				if !shortEscapes[b[at+1]] {
					size, mark = simpleEscape(b[at:])
				}
				if size == 0 {
					return at, seen | wide(all)
				}
				seen |= mark
				mask = mask >> k >> size << size << k
				next = max(next, at+size)
				continue
			}
			if c == '"' || c < 0x20 {
				return at, seen | wide(all)
			}
			mask &= mask - 1
		}
		i = next
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

// gather returns the top bits of the bytes of w as the bits of one byte.
func gather(w uint64) uint64 { return w * 0x0002040810204081 >> 56 }

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
