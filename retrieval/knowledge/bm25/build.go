package bm25

import (
	"slices"

	"sidenote/retrieval/knowledge/analysis"
)

// A Builder collects texts for an Index. The zero Builder is ready; it is not
// safe for concurrent use.
type Builder struct {
	vocabulary analysis.Vocabulary
	segments   []segment
	lengths    []uint32 // terms by text
	total      uint64   // of lengths
	dfs        []uint32

	// of the segment being collected: its postings in order of text
	terms    []uint32
	postings []posting

	// of the text being added
	ids  []uint32
	freq []uint16 // by term, all 0 between texts
}

// Add adds one text, given in parts as in Add(title, title, body), and returns
// its ordinal.
func (w *Builder) Add(parts ...string) int {
	n := len(w.lengths)
	if n > 0 && n%segmentSize == 0 {
		w.flush()
	}
	w.ids = w.ids[:0]
	for _, p := range parts {
		w.ids = w.vocabulary.Append(w.ids, p)
	}
	w.lengths = append(w.lengths, uint32(len(w.ids)))
	w.total += uint64(len(w.ids))
	if more := w.vocabulary.Len() - len(w.dfs); more > 0 {
		w.dfs = append(w.dfs, make([]uint32, more)...)
		w.freq = append(w.freq, make([]uint16, more)...)
	}
	for _, id := range w.ids {
		w.freq[id] = min(w.freq[id]+1, maxFreq)
	}
	text := posting(n % segmentSize << freqBits)
	for _, id := range w.ids {
		if w.freq[id] == 0 {
			continue // came already
		}
		w.terms = append(w.terms, id)
		w.postings = append(w.postings, text|posting(w.freq[id]))
		w.dfs[id]++
		w.freq[id] = 0
	}
	return n
}

// flush sorts what was collected by term (a counting sort, so that texts stay in
// order) into a segment.
func (w *Builder) flush() {
	starts := make([]uint32, w.vocabulary.Len()+1)
	for _, t := range w.terms {
		starts[t+1]++
	}
	for t := 1; t < len(starts); t++ {
		starts[t] += starts[t-1]
	}
	next := slices.Clone(starts)
	sorted := make([]posting, len(w.postings))
	for i, t := range w.terms {
		sorted[next[t]] = w.postings[i]
		next[t]++
	}
	base := len(w.segments) * segmentSize
	w.segments = append(w.segments, segment{base: base, starts: starts, postings: sorted})
	w.terms, w.postings = w.terms[:0], w.postings[:0]
}

// Index returns the index of all texts added. The Builder must not be used again.
func (w *Builder) Index() *Index {
	if len(w.lengths) == 0 {
		return &Index{}
	}
	w.flush()
	average := float64(w.total) / float64(len(w.lengths))
	for i := range w.segments {
		s := &w.segments[i]
		s.norms = normsOf(w.lengths[s.base:min(s.base+segmentSize, len(w.lengths))], average)
		s.best = make([]float32, len(s.starts)-1)
		for t := range s.best {
			for _, p := range s.of(uint32(t)) {
				s.best[t] = max(s.best[t], impact(p.freq(), s.norms[p.text()]))
			}
		}
	}
	w.vocabulary.Forget()
	return &Index{
		vocabulary: w.vocabulary,
		segments:   w.segments,
		dfs:        slices.Clip(w.dfs),
		texts:      len(w.lengths),
	}
}

// normsOf returns the length norms of texts.
func normsOf(lengths []uint32, average float64) []float32 {
	norms := make([]float32, len(lengths))
	for i, n := range lengths {
		norms[i] = float32(k1)
		if average > 0 {
			norms[i] = float32(k1 * (1 - b + b*float64(n)/average))
		}
	}
	return norms
}
