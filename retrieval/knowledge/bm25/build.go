package bm25

import (
	"bytes"
	"cmp"
	"slices"

	"sidenote/retrieval/knowledge/analysis"
)

// maxPostings is from how many postings on a Builder is full: 512 MB of image, a
// thousand different terms a text where there are MaxTexts of them.
const maxPostings = 1 << 27

// A Builder collects texts for a segment. The zero Builder is ready; it is not
// safe for concurrent use.
type Builder struct {
	vocabulary analysis.Vocabulary
	counts     []uint32 // postings by term of the vocabulary

	// in order of text
	lengths  []uint32
	terms    []uint32
	postings []posting

	// of the text being added
	ids  []uint32
	freq []uint16 // by term, all 0 between texts
}

// Full tells that the segment takes no more texts.
func (w *Builder) Full() bool { return len(w.lengths) == MaxTexts || len(w.postings) >= maxPostings }

// Add adds one text, given in parts as in Add(title, title, body), and returns
// its ordinal. Texts are added in the order in which equal scores shall stand.
func (w *Builder) Add(parts ...string) int {
	if w.Full() {
		panic("BUG: text added to a full segment")
	}
	n := len(w.lengths)
	w.ids = w.ids[:0]
	for _, p := range parts {
		w.ids = w.vocabulary.Append(w.ids, p)
	}
	w.lengths = append(w.lengths, uint32(len(w.ids)))
	if more := w.vocabulary.Len() - len(w.counts); more > 0 {
		w.counts = append(w.counts, make([]uint32, more)...)
		w.freq = append(w.freq, make([]uint16, more)...)
	}
	for _, id := range w.ids {
		w.freq[id] = min(w.freq[id]+1, maxFreq)
	}
	text := posting(n << freqBits)
	for _, id := range w.ids {
		if w.freq[id] == 0 {
			continue // came already
		}
		w.terms = append(w.terms, id)
		w.postings = append(w.postings, text|posting(w.freq[id]))
		w.counts[id]++
		w.freq[id] = 0
	}
	return n
}

// Build returns the image of a segment of the texts added, and makes the Builder
// ready for the next; what it learned of the words it keeps.
func (w *Builder) Build() ([]byte, error) {
	d := draft{lengths: w.lengths, starts: []uint32{0}, offsets: []uint32{0}}
	next := make([]uint32, len(w.counts)) // where a term's next posting goes
	for _, id := range w.sortedTerms() {
		start := d.starts[len(d.starts)-1]
		next[id] = start
		d.starts = append(d.starts, start+w.counts[id])
		d.strings = append(d.strings, w.vocabulary.Bytes(id)...)
		d.offsets = append(d.offsets, uint32(len(d.strings)))
	}
	// A counting sort: the texts of a term stay in order.
	d.postings = make([]posting, len(w.postings))
	for i, id := range w.terms {
		d.postings[next[id]] = w.postings[i]
		next[id]++
	}
	image, err := d.image()
	clear(w.counts)
	w.lengths, w.terms, w.postings = w.lengths[:0], w.terms[:0], w.postings[:0]
	return image, err
}

// sortedTerms returns the terms that any text has, in the order of their bytes.
func (w *Builder) sortedTerms() []uint32 {
	type key struct {
		head uint64 // first bytes; spares most comparisons a look at the rest
		id   uint32
	}
	var keys []key
	for id, n := range w.counts {
		if n > 0 {
			keys = append(keys, key{headOf(w.vocabulary.Bytes(uint32(id))), uint32(id)})
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		return bytes.Compare(w.vocabulary.Bytes(a.id), w.vocabulary.Bytes(b.id))
	})
	ids := make([]uint32, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	return ids
}
