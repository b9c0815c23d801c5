package rewrite

import (
	"bytes"
	"math/bits"
)

// marks tell what stands in the text of strings. insideBlocks knows the first three
// by their bits.
type marks uint8

const (
	markEscape marks = 1 << iota // escapes of two bytes
	markWide                     // bytes beyond ASCII
	markTag                      // bytes that may begin a tag
	markCode                     // escapes by code point
)

// inside returns where the text of a string that goes on at i comes to a quote, a
// control character or an escape of more than two bytes, and what it saw on the
// way. markEscape is exact; markWide and markTag may be of what follows within a
// block.
func inside(b []byte, i int) (at int, seen marks) {
	at = i
	if vectors && len(b)-i >= block {
		w := word(b[i:])
		if hit := special(w); hit != 0 { // most keys and roles end in their first word
			if at := i + bits.TrailingZeros64(hit)/8; b[at] != '\\' {
				return at, marksOf(w & (hit&-hit - 1))
			}
		}
		if at, seen = insideBlocks(b, i); len(b)-at > block {
			return at, seen
		}
	}
	end, more := insideWords(b, at)
	if mayTag(b[at:end]) {
		more |= markTag
	}
	return end, seen | more
}

// block is how many bytes insideBlocks looks at in one step.
const block = 64

// marksOf is markWide and markTag for a word.
func marksOf(w uint64) marks {
	open, and := w^(ones*'<'), w^(ones*'&')
	if ((open-ones)&^open|(and-ones)&^and)&tops != 0 {
		return markTag | wide(w)
	}
	return wide(w)
}

// mayTag tells whether b holds a byte that may begin a tag.
func mayTag(b []byte) bool { return bytes.IndexByte(b, '<') >= 0 || bytes.IndexByte(b, '&') >= 0 }

// insideWords is inside without vectors and without markTag: eight bytes a step.
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
		if b[i] != '\\' || !plainEscapes[b[i+1]] {
			return i, seen | wide(all)
		}
		i, seen = i+2, markEscape
	}
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '\\' && i+1 < len(b) && plainEscapes[b[i+1]]:
			i, seen = i+1, markEscape
			continue
		case c == '"' || c == '\\' || c < 0x20:
			return i, seen | wide(all)
		}
		all |= uint64(c)
	}
	return i, seen | wide(all)
}

// wide is markWide where a word holds a byte beyond ASCII.
func wide(w uint64) marks {
	if w&tops != 0 {
		return markWide
	}
	return 0
}
