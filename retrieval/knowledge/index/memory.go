package index

import (
	"hash/maphash"
	"strings"
)

// Upper bounds for the memory that making a segment takes, in bytes: per byte of text, per text,
// per distinct word, and per further part of a word, as in fs.watchLimit. Measured by
// TestSegmentMemory.
const (
	memoryOfByte = 4
	memoryOfText = 1400
	memoryOfWord = 200
	memoryOfPart = 450
)

// segmentMemory returns an upper bound for making a segment in bytes, without its words.
func segmentMemory(weight, texts int) int64 {
	return memoryOfByte*int64(weight) + memoryOfText*int64(texts)
}

// Upper bounds for merging segments: a multiple of their size, and bytes per text.
const (
	mergeFactor   = 4
	memoryOfMerge = 300
)

// mergeMemory returns an upper bound for merging segments of a total size, in bytes.
func mergeMemory(bytes, texts int) int64 {
	return mergeFactor*int64(bytes) + memoryOfMerge*int64(texts)
}

// wordBits is the size of the hash table of Words, in bits.
const wordBits = 1 << 24

// Words is the approximate set of the words in some texts. The zero Words is empty.
type Words struct {
	seen []uint64
	seed maphash.Seed
}

// Add adds the words of a text and returns an upper bound for the bytes that the new ones take in
// a segment.
func (w *Words) Add(text string) (bytes int64) {
	if w.seen == nil {
		w.seen, w.seed = make([]uint64, wordBits/64), maphash.MakeSeed()
	}
	for word := range strings.FieldsSeq(text) {
		bit := maphash.String(w.seed, word) % wordBits
		if w.seen[bit/64]&(1<<(bit%64)) == 0 {
			w.seen[bit/64] |= 1 << (bit % 64)
			bytes += memoryOfWord + memoryOfPart*parts(word)
		}
	}
	return bytes
}

// parts returns an upper bound for the parts of a word after the first, which are indexed
// separately.
func parts(word string) (n int64) {
	before := byte(0)
	for i := range len(word) {
		c := word[i]
		upper, other := c >= 'A' && c <= 'Z', c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z' && c < 0x80
		if i > 0 && (other || upper && before >= 'a' && before <= 'z') {
			n++
		}
		before = c
	}
	return n
}
