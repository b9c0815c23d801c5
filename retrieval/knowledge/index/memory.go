package index

import (
	"hash/maphash"
	"strings"
)

// What making a segment takes, at most, in bytes: for each byte of its texts, for each text,
// for each different word, and for each further part of one, as of fs.watchLimit. It is
// measured: see TestSegmentMemory.
const (
	memoryOfByte = 4
	memoryOfText = 1400
	memoryOfWord = 200
	memoryOfPart = 450
)

// segmentMemory returns how many bytes making a segment takes, at most, beside its words.
func segmentMemory(weight, texts int) int64 {
	return memoryOfByte*int64(weight) + memoryOfText*int64(texts)
}

// What merging segments takes, at most: so many times their size, and bytes for each text.
const (
	mergeFactor   = 4
	memoryOfMerge = 300
)

// mergeMemory returns how many bytes merging segments of a size takes, at most.
func mergeMemory(bytes, texts int) int64 {
	return mergeFactor*int64(bytes) + memoryOfMerge*int64(texts)
}

// wordBits is how many words Words tells apart.
const wordBits = 1 << 24

// Words are the different words of some texts, counted in little memory. The zero Words has none.
type Words struct {
	seen []uint64
	seed maphash.Seed
}

// Add adds the words of a text and returns how many bytes those that are new take in a segment,
// at most.
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

// parts returns how many parts a word may have beside the first: they are found by themselves.
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
