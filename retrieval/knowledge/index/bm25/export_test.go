package bm25

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Seal puts the right sums into an image that was changed, as far as its header
// leads to sections, so that what the sums would have caught gets further.
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

// HeaderSize is where the first section starts.
const HeaderSize = headerSize

// Size returns about how many bytes the terms take.
func (w *Builder) Size() int { return w.vocabulary.Size() }

// OpenFile returns the segment of an image in a file, which is mapped where the
// system can: see package mapped. The mapping goes when nothing holds the Segment
// any more.
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

// InOrder is the order in which texts lie.
func InOrder(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Text, b.Text))
}

// Known tells what is wrong with what x knows of a term by what was known before a change:
// it must be what a look-up finds, and bounds must hold without being loose.
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

// Again returns the Best of an earlier Index brought up to date, and whether that was
// possible without a search of all texts.
func (x *Index) Again(terms []Term, before *Best, change *Change) (Best, bool) {
	b, ok, err := x.again(context.Background(), x.weigh(terms, change, nil), before, change)
	return b, ok && err == nil
}

// Searchers returns how many goroutines search for a question.
func (x *Index) Searchers(terms []Term) int { return searchers(x, x.weigh(terms, nil, nil)) }
