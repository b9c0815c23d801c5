package bm25

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// Merge returns the image of a segment of the live texts of sources, in the order of compare. Text
// i was from[i] before, with its segment as an index of sources. No text is analysed again; the
// image is that of a Builder with the same texts in the same order. A single source with dead
// texts is rewritten without them.
//
// More than MaxTexts texts, or more postings than can be numbered, are an error.
func Merge(sources []*Live, compare Compare) (image []byte, from []Ref, err error) {
	defer runtime.KeepAlive(sources)
	texts, postings := 0, uint64(0)
	for _, l := range sources {
		texts += l.texts
		postings += uint64(l.before[l.segment.terms()])
	}
	if texts > MaxTexts || postings > math.MaxUint32 {
		return nil, nil, fmt.Errorf("merge %d texts with %d postings: %w", texts, postings, ErrFull)
	}
	from = liveTexts(sources, texts, compare)
	m := merge{draft: draft{
		lengths:  make([]uint32, texts),
		postings: make([]posting, 0, postings),
		starts:   []uint32{0},
		offsets:  []uint32{0},
	}}
	for _, l := range sources {
		m.sources = append(m.sources, source{Live: l, numbers: make([]uint32, l.segment.Len())})
	}
	for i, ref := range from {
		s := &m.sources[ref.Segment]
		s.numbers[ref.Text] = uint32(i)
		m.lengths[i] = s.segment.lengths[ref.Text]
	}
	m.run()
	image, err = m.image()
	return image, from, err
}

// liveTexts returns the live texts of sources in order.
func liveTexts(sources []*Live, texts int, compare Compare) []Ref {
	refs := make([]Ref, 0, texts)
	for i, l := range sources {
		for t := range l.segment.Len() {
			if !l.dead.Has(t) {
				refs = append(refs, Ref{i, t})
			}
		}
	}
	slices.SortFunc(refs, compare)
	return refs
}

// A merge is a draft that is being made from sources.
type merge struct {
	draft
	sources []source
}

// A source is one segment of a merge.
type source struct {
	*Live
	numbers []uint32 // of its texts in the draft; undefined for dead ones
	next    uint32   // next term
}

// run merges the terms of all sources.
func (m *merge) run() {
	for {
		var term []byte
		for i := range m.sources {
			s := &m.sources[i]
			if int(s.next) < s.segment.terms() {
				if t := s.segment.term(s.next); term == nil || bytes.Compare(t, term) < 0 {
					term = t
				}
			}
		}
		if term == nil {
			return
		}
		start := len(m.postings)
		m.gather(term)
		if len(m.postings) == start {
			continue // all its texts are dead
		}
		slices.Sort(m.postings[start:])
		m.starts = append(m.starts, uint32(len(m.postings)))
		m.strings = append(m.strings, term...)
		m.offsets = append(m.offsets, uint32(len(m.strings)))
	}
}

// gather appends the live postings of a term from all sources.
func (m *merge) gather(term []byte) {
	for i := range m.sources {
		s := &m.sources[i]
		if int(s.next) == s.segment.terms() || !bytes.Equal(s.segment.term(s.next), term) {
			continue
		}
		for _, p := range s.segment.of(s.next) {
			if s.dead == nil || !s.dead.Has(int(p.text())) {
				m.postings = append(m.postings, posting(s.numbers[p.text()]<<freqBits)|p&maxFreq)
			}
		}
		s.next++
	}
}
