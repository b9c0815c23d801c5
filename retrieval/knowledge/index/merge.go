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
	// MergeAt is how many segments of one size class are not merged.
	MergeAt = 8
	// mergeBytes limits the texts of a merged segment: making it takes twice as much heap.
	mergeBytes = 256 << 20
	// fullTexts is the number of texts from which a segment is not merged because of its size
	// class.
	fullTexts = bm25.MaxTexts / 2
)

// sizeOf returns the size class of a segment. Each class holds sixteen times the texts of the one
// before, so a text is merged three or four times.
func sizeOf(texts int) (class int) {
	for limit := 512; texts >= limit; limit *= 16 {
		class++
	}
	return class
}

// ToMerge returns the segments that should be merged into one; nil for none. These are segments of
// which a third of the documents is gone, or more than MergeAt of one size class. A search looks
// up each term in each segment, and reads the postings of deleted documents. Merging them takes at
// most memory bytes; 0 is no limit.
func (s Segments) ToMerge(memory int64) Segments {
	sizes := map[int]Segments{}
	for _, s := range s.withTwins() {
		if s.Name == "" {
			continue // on the heap only, for lack of disk space
		}
		if s.Deleted != nil && (s.Documents == 0 || 3*s.Postings.Len() < 2*s.texts.count || 3*s.Documents < 2*s.texts.documents) {
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

// Changed returns a segment in which documents were deleted or replaced, which their texts are still
// in; nil if there is none.
func (s Segments) Changed() Segments {
	for _, s := range s.withTwins() {
		if s.Name != "" && s.Deleted != nil {
			return Segments{s}
		}
	}
	return nil
}

// MergedWithin reports whether merging the segments takes at most memory bytes; 0 is no limit.
func (s Segments) MergedWithin(memory int64) bool {
	texts, size := 0, 0
	for _, one := range s {
		texts, size = texts+one.Postings.Len(), size+one.size
	}
	return memory == 0 || mergeMemory(size, texts) <= memory
}

// fitting returns as many of the segments as fit into one, smallest first; nil if fewer than two
// fit into the memory.
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

// Merge returns the image of a segment of the live documents of some segments, and their rows. It
// does not analyse texts again.
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
		if len(d.sets.list) > known { // the first source that has a set provides its values
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
			// No copy: sources outlive the draft.
			d.text(string(s.texts.section(t)), unsafe.String(unsafe.SliceData(body), len(body)), s.texts.countsOf(t), s.texts.sketch(t))
		}
	}
	for i := range sources {
		d.values.take(&sources[i].texts, sets[i])
	}
	image, err = d.segment(postings)
	return image, rows, err
}
