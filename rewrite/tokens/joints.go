package tokens

import (
	"math/bits"
	"unicode/utf8"
)

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
