package rewrite

import "math/bits"

// inside returns where the text of a string that goes on at i comes to a quote, a
// control character or an escape of more than two bytes. escapes tells whether
// there were shorter ones before, wide whether there were bytes beyond ASCII.
func inside(b []byte, i int) (at int, escapes, wide bool) {
	if !vectors || len(b)-i < block {
		return insideWords(b, i)
	}
	w := word(b[i:])
	if hit := special(w); hit != 0 { // most keys and roles end in their first word
		at := i + bits.TrailingZeros64(hit)/8
		if b[at] != '\\' {
			return at, false, w&tops&(hit&-hit-1) != 0
		}
	}
	at, escapes, wide = insideBlocks(b, i)
	if len(b)-at < block {
		end, more, wider := insideWords(b, at)
		at, escapes, wide = end, escapes || more, wide || wider
	}
	return at, escapes, wide
}

// block is how many bytes insideBlocks looks at in one step.
const block = 64

// insideWords is inside without vectors: eight bytes a step.
func insideWords(b []byte, i int) (at int, escapes, wide bool) {
	var seen uint64
	for len(b)-i >= 9 {
		w := word(b[i:])
		hit := special(w)
		if hit == 0 {
			seen |= w
			i += 8
			continue
		}
		seen |= w & (hit&-hit - 1)
		i += bits.TrailingZeros64(hit) / 8
		if b[i] != '\\' || !plainEscapes[b[i+1]] {
			return i, escapes, seen&tops != 0
		}
		i, escapes = i+2, true
	}
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '\\' && i+1 < len(b) && plainEscapes[b[i+1]]:
			i, escapes = i+1, true
			continue
		case c == '"' || c == '\\' || c < 0x20:
			return i, escapes, seen&tops != 0
		}
		seen |= uint64(c)
	}
	return i, escapes, seen&tops != 0
}
