package index

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// MergeAt is how many segments of one size class are left alone.
	MergeAt = 8
	// mergeBytes bounds the texts of a merged segment: twice as much is on the heap
	// while it is made.
	mergeBytes = 256 << 20
	// fullTexts is the number of texts from which on a segment is not merged for its size.
	fullTexts = bm25.MaxTexts / 2
)

// sizeOf returns the size class of a segment: each holds sixteen times the texts of the
// one before, so a text is merged three or four times in its life.
func sizeOf(texts int) (class int) {
	for limit := 512; texts >= limit; limit *= 16 {
		class++
	}
	return class
}

// ToMerge returns the segments that should become one, nil for none: one of whose
// documents a third is gone, or more than MergeAt of a size class. A search looks a term
// up in each segment, and reads past the postings of what is gone. Merging them takes at most
// so many bytes of memory; 0 is no bound.
func (s Segments) ToMerge(memory int64) Segments {
	sizes := map[int]Segments{}
	for _, s := range s {
		if s.Name == "" {
			continue // on the heap only, because there was no room for its file
		}
		if s.Gone != nil && (s.Documents == 0 || 3*s.Postings.Len() < 2*s.texts.count || 3*s.Documents < 2*s.texts.documents) {
			if memory == 0 || mergeMemory(s.size, s.Postings.Len()) <= memory {
				return Segments{s}
			}
			continue
		}
		if s.Postings.Len() < fullTexts {
			class := sizeOf(s.Postings.Len())
			sizes[class] = append(sizes[class], s)
		}
	}
	for class := range sizeOf(bm25.MaxTexts) + 1 {
		if len(sizes[class]) > MergeAt {
			if some := fitting(sizes[class], memory); some != nil {
				return some
			}
		}
	}
	return nil
}

// fitting returns as many of the segments as fit into one, the smallest first; nil where not
// even two fit into the memory.
func fitting(segments Segments, memory int64) Segments {
	slices.SortStableFunc(segments, func(a, b Live) int { return a.Postings.Len() - b.Postings.Len() })
	texts, bytes, size := 0, 0, 0
	for i, s := range segments {
		texts, bytes, size = texts+s.Postings.Len(), bytes+len(s.texts.bodies), size+s.size
		if memory > 0 && mergeMemory(size, texts) > memory {
			if i > 1 {
				return segments[:i]
			}
			return nil
		}
		if i > 1 && (texts > bm25.MaxTexts || bytes > mergeBytes) {
			return segments[:i]
		}
	}
	return segments
}

// Merge returns the image of a segment of the documents that are left in some segments,
// and their rows. No text is analysed again.
func Merge(sources Segments) (image []byte, rows []int64, err error) {
	defer runtime.KeepAlive(sources)
	postings, from, err := bm25.Merge(livePostings(sources), sources.compare)
	if err != nil {
		return nil, nil, err
	}
	d := draft{values: valuesDraft{}}
	sets := make([][]uint32, len(sources)) // by source, by its set: the number in the draft
	for i, s := range sources {
		sets[i] = slices.Repeat([]uint32{noSet}, s.texts.sets)
	}
	for ref := range sources.InOrder() {
		s := sources[ref.segment]
		rows = append(rows, s.texts.row(ref.document))
		set, known := number(s.texts.setOf, ref.document), len(d.sets.list)
		d.document(s.texts.row(ref.document), string(s.texts.id(ref.document)), string(s.texts.name(ref.document)), string(s.texts.set(set)))
		if len(d.sets.list) > known { // the first source that has a set gives its values
			sets[ref.segment][set] = uint32(known)
		}
		for t := s.texts.first(ref.document); t < s.texts.first(ref.document+1); t++ {
			body := s.texts.body(t)
			if !s.texts.whole(t) {
				return nil, nil, &DamageError{Segment: s.Segment, err: fmt.Errorf("text %d: %w", t, ErrDamaged)}
			}
			if n := len(d.texts); n >= len(from) || from[n] != (bm25.Ref{Segment: ref.segment, Text: t}) {
				return nil, nil, errors.New("BUG: texts and postings are merged in different orders")
			}
			// Not copied: sources outlive the draft.
			d.text(string(s.texts.section(t)), unsafe.String(unsafe.SliceData(body), len(body)), s.texts.countsOf(t), s.texts.sketch(t))
		}
	}
	for i := range sources {
		d.values.take(&sources[i].texts, sets[i])
	}
	image, err = d.segment(postings)
	return image, rows, err
}
