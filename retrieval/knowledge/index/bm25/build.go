package bm25

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"

	"sidenote/retrieval/analysis"
)

// maxPostings is the number of postings at which a Builder is full: 512 MB of image, or a thousand
// distinct terms in each of MaxTexts texts.
const maxPostings = 1 << 27

// keptPart limits the vocabulary that a Builder keeps for the next segment to 1/keptPart of its
// limit. Most bases have fewer words; the words of all segments together are not limited.
const keptPart = 16

// A Builder collects texts for a segment. The zero Builder is ready for use; it is not safe for
// concurrent use.
type Builder struct {
	Limit int // size limit of the distinct terms in bytes; 0 is analysis.DefaultLimit

	vocabulary analysis.Vocabulary
	counts     []uint32 // postings by term of the vocabulary

	// in order of text
	lengths  []uint32
	terms    []uint32
	postings []posting

	// The text being added.
	ids  []uint32
	last int      // where the ids of its last part begin
	freq []uint16 // by term; all 0 between texts
}

// Len returns the number of texts added since Build.
func (w *Builder) Len() int { return len(w.lengths) }

// Add adds one text, given in parts as in Add(title, title, body), and returns its ordinal. Texts
// must be added in the order that equal scores should have. It returns an error wrapping ErrFull
// if the segment is full.
func (w *Builder) Add(parts ...string) (int, error) {
	if len(w.lengths) == MaxTexts || len(w.postings) >= maxPostings {
		return 0, fmt.Errorf("%w: %d texts", ErrFull, len(w.lengths))
	}
	n := len(w.lengths)
	w.ids, w.vocabulary.Limit = w.ids[:0], w.Limit
	length := 0
	for _, p := range parts {
		var err error
		n := 0
		w.last = len(w.ids)
		if w.ids, n, err = w.vocabulary.Append(w.ids, p); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrFull, err)
		}
		length += n
	}
	w.lengths = append(w.lengths, uint32(length))
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
			continue // already counted
		}
		w.terms = append(w.terms, id)
		w.postings = append(w.postings, text|posting(w.freq[id]))
		w.counts[id]++
		w.freq[id] = 0
	}
	return n, nil
}

// LastPart yields the terms of the last part of the text added last, including repetitions. They
// are valid until the next text is added.
func (w *Builder) LastPart() iter.Seq[[]byte] {
	return func(yield func(term []byte) bool) {
		for _, id := range w.ids[w.last:] {
			if !yield(w.vocabulary.Bytes(id)) {
				return
			}
		}
	}
}

// Truncate removes the texts from n on.
func (w *Builder) Truncate(n int) {
	kept, _ := slices.BinarySearchFunc(w.postings, n, func(p posting, n int) int { return cmp.Compare(int(p.text()), n) })
	for _, id := range w.terms[kept:] {
		w.counts[id]--
	}
	w.lengths, w.terms, w.postings = w.lengths[:n], w.terms[:kept], w.postings[:kept]
}

// Build returns the image of a segment of the texts added, and resets the Builder. It keeps its
// vocabulary unless that is large.
func (w *Builder) Build() ([]byte, error) {
	d := draft{lengths: w.lengths, starts: []uint32{0}, offsets: []uint32{0}}
	next := make([]uint32, len(w.counts)) // position of a term's next posting
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
	if w.vocabulary.Size() > cmp.Or(w.Limit, analysis.DefaultLimit)/keptPart {
		w.vocabulary, w.counts, w.freq = analysis.Vocabulary{}, nil, nil
	}
	clear(w.counts)
	w.lengths, w.terms, w.postings = w.lengths[:0], w.terms[:0], w.postings[:0]
	return image, err
}

// sortedTerms returns the terms that occur in a text, sorted by their bytes.
func (w *Builder) sortedTerms() []uint32 {
	type key struct {
		head uint64 // first bytes; most comparisons need no more
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
