package tokens

import (
	"bytes"
	"compress/flate"
	"embed"
	"fmt"
	"io"
	"math/bits"
	"sync"
)

// The vocabularies in the form that internal/generate describes: 718 KB for o200k_base,
// 335 KB for cl100k_base and 163 KB for p50k_base, which contains r50k_base.
//
//go:generate go run ./internal/generate
//go:embed data/*.bin
var data embed.FS

const (
	singles  = 256 // the ids below are single bytes
	inline   = 8   // length of the longest token that is its own key
	maxToken = 128 // length in bytes of the longest token of all encodings
	idBits   = 18  // bits of an id
	none     = 1<<32 - 1
)

// A vocabulary holds the tokens of an encoding, by their bytes and by the two tokens that each is
// merged from. It is immutable once built.
//
// Ids are ranks: of two merges the one with the lower id comes first. Byte pair encoding makes
// each token of more than a byte from one fixed pair of halves, whatever surrounds it, so a merge
// can be looked up by the pair of ids without the text. The generator refuses vocabularies with
// tokens that no merge makes.
type vocabulary struct {
	text    []byte   // texts of all tokens
	offsets []uint32 // start of each id's text, and the end of the last

	short []shortSlot
	long  []longSlot
	pairs []uint64 // left half, right half and id; 0 is empty

	single [singles]uint32 // ids of single bytes
	two    []uint32        // ids of pairs of bytes; none if there is no such token
	joints joints
}

// A shortSlot holds a token of up to 8 bytes: the text, its first byte lowest, and id<<4 |
// length; 0 is empty. The text is split into two words so that a slot takes 12 bytes instead of
// 16.
type shortSlot struct{ low, high, value uint32 }

// A longSlot holds a longer token: a part of its hash, which is never 0, and its id.
type longSlot struct{ tag, id uint32 }

// The vocabularies, each unpacked once for all Sets, which takes up to 80 ms. They are embedded
// in the binary and never change.
var (
	o200kWords  = sync.OnceValues(func() (*vocabulary, error) { return newVocabulary("o200k_base", 0) })
	cl100kWords = sync.OnceValues(func() (*vocabulary, error) { return newVocabulary("cl100k_base", 0) })
	p50kWords   = sync.OnceValues(func() (*vocabulary, error) { return newVocabulary("p50k_base", 0) })
	r50kWords   = sync.OnceValues(func() (*vocabulary, error) { return newVocabulary("p50k_base", 50256) }) // r50k_base is the beginning of p50k_base's file
)

// newVocabulary builds the first limit ids of a file, all if limit is 0.
func newVocabulary(file string, limit int) (*vocabulary, error) {
	packed, err := data.ReadFile("data/" + file + ".bin")
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	n := (len(plain) - singles) / 6
	size := n + singles
	if limit > 0 {
		size = min(size, limit)
	}
	v := &vocabulary{
		text:    append(make([]byte, 0, 7*size), plain[:singles]...),
		offsets: make([]uint32, 0, size+1),
		pairs:   make([]uint64, 1<<(bits.Len(uint(size))+1)),
		two:     make([]uint32, 1<<16),
	}
	for i := range v.two {
		v.two[i] = none
	}
	for id := range uint32(singles) {
		v.offsets = append(v.offsets, id)
		v.single[plain[id]] = id
	}
	for id := uint32(singles); id < uint32(size); id++ {
		v.offsets = append(v.offsets, uint32(len(v.text)))
		half := plain[id:]
		left := uint32(half[0]) | uint32(half[n])<<8 | uint32(half[2*n])<<16
		right := uint32(half[3*n]) | uint32(half[4*n])<<8 | uint32(half[5*n])<<16
		if left != id { // otherwise the id has no token
			v.addPair(left, right, id)
		}
	}
	v.offsets = append(v.offsets, uint32(len(v.text)))
	v.index()
	v.joints = newJoints(v)
	return v, nil
}

// addPair adds the token id, made of left and right, which must have been added before.
func (v *vocabulary) addPair(left, right, id uint32) {
	v.text = append(append(v.text, v.bytes(left)...), v.bytes(right)...)
	if left < singles && right < singles {
		v.two[uint32(v.text[left])<<8|uint32(v.text[right])] = id
	}
	key := uint64(left)<<idBits | uint64(right)
	at := spread(key, len(v.pairs))
	for v.pairs[at] != 0 {
		at = (at + 1) & (len(v.pairs) - 1)
	}
	v.pairs[at] = key<<idBits | uint64(id)
}

// index fills the tables that are searched by text.
func (v *vocabulary) index() {
	shorts := 0
	for id := range len(v.offsets) - 1 {
		if n := v.offsets[id+1] - v.offsets[id]; n > 0 && n <= inline {
			shorts++
		}
	}
	longs := len(v.offsets) - 1 - shorts
	v.short = make([]shortSlot, 1<<bits.Len(uint(shorts+shorts/4)))
	v.long = make([]longSlot, 1<<bits.Len(uint(longs+longs/4)))
	for id := range uint32(len(v.offsets) - 1) {
		token := v.bytes(id)
		switch n := len(token); {
		case n == 0:
		case n <= inline:
			var key uint64
			for i, b := range token {
				key |= uint64(b) << (8 * i)
			}
			at := spread(key, len(v.short))
			for v.short[at].value != 0 {
				at = (at + 1) & (len(v.short) - 1)
			}
			v.short[at] = shortSlot{low: uint32(key), high: uint32(key >> 32), value: id<<4 | uint32(n)}
		default:
			at, tag := hashed(string(token), len(v.long))
			for v.long[at].tag != 0 {
				at = (at + 1) & (len(v.long) - 1)
			}
			v.long[at] = longSlot{tag: tag, id: id}
		}
	}
}

func (v *vocabulary) bytes(id uint32) []byte { return v.text[v.offsets[id]:v.offsets[id+1]] }

// find returns the id of the token text, none if there is none.
func (v *vocabulary) find(text string) uint32 {
	switch {
	case len(text) <= inline:
		return v.findShort(load(text, 0, len(text)), len(text))
	case len(text) > maxToken:
		return none
	}
	at, tag := hashed(text, len(v.long))
	for {
		s := &v.long[at]
		if s.tag == tag && string(v.bytes(s.id)) == text {
			return s.id
		}
		if s.tag == 0 {
			return none
		}
		at = (at + 1) & (len(v.long) - 1)
	}
}

// findShort returns the id of the token of n bytes with the given key; see load.
func (v *vocabulary) findShort(key uint64, n int) uint32 {
	for at := spread(key, len(v.short)); ; at = (at + 1) & (len(v.short) - 1) {
		s := &v.short[at]
		if s.low == uint32(key) && s.high == uint32(key>>32) && int(s.value&15) == n {
			return s.value >> 4
		}
		if s.value == 0 {
			return none
		}
	}
}

// pair returns the token that left and right merge into, none if there is none.
func (v *vocabulary) pair(left, right uint32) uint32 {
	key := uint64(left)<<idBits | uint64(right)
	for at := spread(key, len(v.pairs)); ; at = (at + 1) & (len(v.pairs) - 1) {
		slot := v.pairs[at]
		if slot>>idBits == key {
			return uint32(slot & (1<<idBits - 1))
		}
		if slot == 0 {
			return none
		}
	}
}

// load returns n ≤ 8 bytes of text at i, the first lowest.
func load(text string, i, n int) uint64 {
	if i+8 <= len(text) {
		return load64(text[i:]) & (^uint64(0) >> (64 - 8*n))
	}
	var key uint64
	for k := range n {
		key |= uint64(text[i+k]) << (8 * k)
	}
	return key
}

func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// golden is 2^64 divided by the golden ratio: Fibonacci hashing (Knuth, The Art of
// Computer Programming 3, 6.4).
const golden = 0x9e3779b97f4a7c15

// spread returns the slot of key in a table of size slots, a power of two.
func spread(key uint64, size int) int {
	return int((key^key>>32)*golden>>32) & (size - 1)
}

// hashed returns the slot of piece, which is longer than 8 bytes, in a table of size
// slots, and its tag.
func hashed(piece string, size int) (at int, tag uint32) {
	h := uint64(len(piece))
	for i := 0; i < len(piece)-8; i += 8 {
		h = (h ^ load64(piece[i:])) * golden
		h ^= h >> 29
	}
	h = (h ^ load64(piece[len(piece)-8:])) * golden
	return int(h>>32) & (size - 1), uint32(h>>8) | 1
}

// The encodings split a text into pieces, which are encoded one by one, by these
// patterns (openai_public.py of OpenAI's tiktoken); the first alternative that matches
// wins:
//
//	o200k   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	        [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	        \p{N}{1,3} | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	cl100k  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//	        | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The functions below match them by hand. Each looks at a rune a few times at most and
// reads no further than the next piece, so the whole takes linear time.

// A splitter returns the end of the piece that begins at i < len(text).
type splitter func(k *kinds, text string, i int) int

// splitO200k is the splitter of o200k_base.
func splitO200k(k *kinds, text string, i int) int {
	first, size := k.at(text, i)
	next := i + size
	switch first {
	case upper, lower, caseless:
		end, _ := k.word(text, i)
		return afterContraction(text, end)
	case number:
		return k.digits(text, next)
	case lineBreak:
		return k.whiteSpace(text, i, true)
	}
	end, cased := k.word(text, next)
	switch {
	case first == combining && !cased:
		// Of marks followed by capitals the first alternative takes the marks alone.
		return afterContraction(text, next)
	case end > next:
		return afterContraction(text, end)
	case first == symbol:
		return slashes(text, k.run(text, next, signs))
	case text[i] == ' ':
		if end = k.run(text, next, signs); end > next {
			return slashes(text, end)
		}
	}
	return k.whiteSpace(text, i, true)
}

// word returns the end of the word of o200k_base that begins at i, i if there is none. cased
// reports whether it ends with what may be a small letter, as the first alternative requires.
// Capitals without anything small after them are left to the second alternative or, if something
// caseless is before or among them, to the next piece.
func (k *kinds) word(text string, i int) (end int, cased bool) {
	if k.ascii[byteAt(text, i)] == lower {
		return k.run(text, i+1, small), true
	}
	folded := i // offset after the last rune that may be a small letter
	for end = i; ; {
		found, size := k.at(text, end)
		if found == lower {
			return k.run(text, end+size, small), true
		}
		if found&large == 0 {
			break
		}
		end += size
		if found != upper {
			folded = end
		}
	}
	if folded > i {
		return folded, true
	}
	return end, false
}

// splitCL100k is the splitter of cl100k_base.
func splitCL100k(k *kinds, text string, i int) int {
	first, size := k.at(text, i)
	next := i + size
	switch first {
	case upper, lower, caseless:
		return k.run(text, next, letters)
	case number:
		return k.digits(text, next)
	case lineBreak:
		return k.whiteSpace(text, i, true)
	}
	if end := afterContraction(text, i); end > i {
		return end
	}
	if end := k.run(text, next, letters); end > next {
		return end
	}
	end := next
	if first&signs != 0 || text[i] == ' ' {
		end = k.run(text, next, signs)
	}
	if first&signs != 0 || end > next {
		return k.run(text, end, lineBreak)
	}
	return k.whiteSpace(text, i, true)
}

// splitGPT2 is the splitter of p50k_base and r50k_base.
func splitGPT2(k *kinds, text string, i int) int {
	if end := afterContraction(text, i); end > i && text[i+1] >= 'a' && text[end-1] >= 'a' {
		return end
	}
	start := i
	if text[i] == ' ' {
		start++
	}
	first, size := k.at(text, start)
	for _, of := range [...]kind{letters, number, signs} {
		if first&of != 0 {
			return k.run(text, start+size, of)
		}
	}
	return k.whiteSpace(text, i, false)
}

// digits returns the end of a group of up to three digits; i is after the first.
func (k *kinds) digits(text string, i int) int {
	for range 2 {
		found, size := k.at(text, i)
		if found != number {
			break
		}
		i += size
	}
	return i
}

// whiteSpace returns the end of the piece of white space at i. If breaks is set and there is a
// line break, that is after the last line break. Otherwise it is before the last rune, which goes
// with the text that follows; at the end of the text, or if there is only one rune, it is after
// the last rune.
func (k *kinds) whiteSpace(text string, i int, breaks bool) int {
	broken, last, end := i, i, i
	for {
		found, size := k.at(text, end)
		if found&spaces == 0 {
			break
		}
		last, end = end, end+size
		if found == lineBreak {
			broken = end
		}
	}
	switch {
	case breaks && broken > i:
		return broken
	case end == len(text) || last == i:
		return end
	}
	return last
}

// slashes returns the end of the run of slashes and line breaks that begins at i.
func slashes(text string, i int) int {
	for i < len(text) && (text[i] == '/' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// afterContraction returns the end of the contraction ('s 't 're 've 'm 'll 'd in any letter
// case) that begins at i; i if there is none.
func afterContraction(text string, i int) int {
	if byteAt(text, i) != '\'' {
		return i
	}
	switch byteAt(text, i+1) | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if byteAt(text, i+2)|0x20 == 'e' {
			return i + 3
		}
	case 'l':
		if byteAt(text, i+2)|0x20 == 'l' {
			return i + 3
		}
	}
	return i
}

// byteAt returns the byte of text at i, 0 after its end.
func byteAt(text string, i int) byte {
	if i < len(text) {
		return text[i]
	}
	return 0
}
