package bm25

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Seal corrects the checksums of a modified image, as far as its header is usable, so that further
// checks are tested.
func Seal(image []byte) {
	if len(image) < headerSize {
		return
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(image[countsAt+4*i:]) }
	at := uint64(headerSize)
	for i, size := range (counts{number(0), number(1), number(2), number(3), number(4)}).sizes() {
		end := at + padded(size)
		if end > uint64(len(image)) {
			break
		}
		binary.LittleEndian.PutUint32(image[sumsAt+4*i:], crc32.Checksum(image[at:end], castagnoli))
		at = end
	}
	binary.LittleEndian.PutUint32(image[headerSum:], crc32.Checksum(image[:headerSum], castagnoli))
}

// HeaderSize is the offset of the first section.
const HeaderSize = headerSize

// Size returns the approximate size of the terms in bytes.
func (w *Builder) Size() int { return w.vocabulary.Size() }

// OpenFile opens the image in a file, which is mapped if the system supports it: see package
// mapped. It is unmapped when the Segment is no longer referenced.
func OpenFile(name string) (*Segment, error) {
	f, err := OpenMapped(name)
	if err != nil {
		return nil, err
	}
	s, err := Open(f.Bytes(), f)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", name, err)
	}
	return s, nil
}

// Segment returns the segment.
func (l *Live) Segment() *Segment { return l.segment }

// InOrder compares texts by position.
func InOrder(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Text, b.Text))
}

// Known returns an error if what x knows about a term, derived from what was known before a
// change, differs from a look-up, or if its bounds are wrong or loose.
func (x *Index) Known(term string, change *Change) error {
	got, want := x.look(term, change), learn(x, term, nil, nil)
	if got.texts != want.texts || got.total != want.total || got.average < x.average || got.average > x.average*boundSpoil {
		return fmt.Errorf("%q: %+v, want %+v", term, got, want)
	}
	for i, e := range got.in {
		v, w := &x.views[i], want.in[i]
		if e.id != w.id || e.texts != w.texts || e.total != w.total {
			return fmt.Errorf("%q in segment %d: %+v, want %+v", term, i, e, w)
		}
		if e.texts > 0 && (e.most < v.most(e.id, x.average) || e.most > v.most(e.id, x.average*boundSpoil)) {
			return fmt.Errorf("%q in segment %d: bound %v, not %v", term, i, e.most, v.most(e.id, x.average))
		}
	}
	return nil
}

// Again updates a Best of an earlier Index, and reports whether that was possible without
// searching all texts.
func (x *Index) Again(terms []Term, before *Best, change *Change) (Best, bool) {
	b, ok, err := x.again(context.Background(), x.weigh(terms, change, nil), before, change)
	return b, ok && err == nil
}

// Searchers returns how many goroutines search for a question.
func (x *Index) Searchers(terms []Term) int { return searchers(x, x.weigh(terms, nil, nil)) }

// MostNear is how many terms Nearest finds.
const MostNear = mostNear

// Respell makes the spellings of all segments again and returns the number of terms in them.
func (x *Index) Respell() (terms int) {
	for i := range x.views {
		s := x.views[i].segment
		s.speller.made.Store(nil)
		for _, same := range s.spellings() {
			terms += len(same.terms)
		}
	}
	return terms
}
