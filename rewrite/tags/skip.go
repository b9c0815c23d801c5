package tags

import "unicode/utf8"

// A byteSet holds the bytes of a text that need a closer look. It must not contain tab, line
// feed, or printable ASCII other than '<', '[' and '&', because skip passes over those. In valid
// UTF-8 the first byte of a rune is enough to skip most scripts.
type byteSet [256]bool

// unclean holds the first bytes of all runes changed by replacement.
var unclean = func() (s byteSet) {
	for b := range utf8.RuneSelf {
		s[b] = b < ' ' && b != '\t' && b != '\n' || b == 0x7f
	}
	return s.with("\u0080\u061c\u200e\U000e0000")
}()

// brackets holds the first bytes of all runes that may open a look-alike.
var brackets = byteSet{}.with("<&[\uff3b" + openers)

// with returns the set plus the first bytes of runes.
func (s byteSet) with(runes string) byteSet {
	for i := range runes {
		s[runes[i]] = true
	}
	return s
}

// skip returns how many bytes at the start of text are not in set. It passes over eight bytes of
// plain ASCII at a time (Hacker's Delight, 6-1: does a word have a byte less than n, or one equal
// to n).
func skip(text string, set *byteSet) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		s := text[i : i+8]
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		lt, sq, amp, del := w^ones*'<', w^ones*'[', w^ones*'&', w^ones*0x7f
		found := (w - ones*' ') | (lt-ones)&^lt | (sq-ones)&^sq | (amp-ones)&^amp | (del-ones)&^del | w
		if found&highs == 0 {
			continue
		}
		for j := range 8 {
			if set[s[j]] {
				return i + j
			}
		}
	}
	for ; i < len(text); i++ {
		if set[text[i]] {
			return i
		}
	}
	return i
}
