package bm25

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"unsafe"

	"sidenote/retrieval/analysis"
)

// ErrDamaged is in the error of an image that is not as it was written.
var ErrDamaged = errors.New("damaged index image")

// ErrVersion is in the error of an image that is whole but was written in another
// format or with another analyser: its texts must be indexed again.
var ErrVersion = errors.New("index image of another version")

// Open returns the segment of an image that Build or Merge returned. It reads the
// image once, to see that it is whole, and keeps it: the caller must not change
// it afterwards. The image may go when nothing holds owner any more, which the Segment
// does; nil where it stays by itself.
//
// Numbers are read where they lie, which on the hot path costs nothing and spares
// a copy of what may be a mapped file. Where that cannot be, on a big-endian
// processor or out of line in memory, they are copied.
func Open(image []byte, owner any) (*Segment, error) {
	c, err := readHeader(image)
	if err != nil {
		return nil, err
	}
	var section [sections][]byte
	at := uint64(headerSize)
	for i, size := range c.sizes() {
		end := at + padded(size)
		if crc32.Checksum(image[at:end], castagnoli) != binary.LittleEndian.Uint32(image[sumsAt+4*i:]) {
			return nil, damaged(sectionNames[i])
		}
		section[i] = image[at : at+size : at+size]
		at = end
	}
	s := &Segment{
		owner:       owner,
		lengths:     numbers[uint32](section[lengthsSection]),
		postings:    numbers[posting](section[postingsSection]),
		starts:      numbers[uint32](section[startsSection]),
		fronts:      numbers[front](section[frontsSection]),
		frontStarts: numbers[uint32](section[frontStartsSection]),
		offsets:     numbers[uint32](section[offsetsSection]),
		strings:     section[stringsSection],
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.heads = s.headsOf()
	return s, nil
}

func damaged(where string) error { return fmt.Errorf("%w: %s", ErrDamaged, where) }

// readHeader returns what the header says, once all of it is known to be so. The
// sum comes before the version: a damaged version is not another one.
func readHeader(image []byte) (c counts, err error) {
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(image[at:]) }
	if len(image) < headerSize || string(image[:len(magic)]) != magic || crc32.Checksum(image[:headerSum], castagnoli) != number(headerSum) {
		return c, damaged("header")
	}
	if f := number(formatAt); f != format {
		return c, fmt.Errorf("%w: format %d, not %d", ErrVersion, f, format)
	}
	if a := strings.TrimRight(string(image[analyserAt:sumsAt]), "\x00"); a != analysis.Version {
		return c, fmt.Errorf("%w: analyser %q, not %q", ErrVersion, a, analysis.Version)
	}
	c = counts{number(countsAt), number(countsAt + 4), number(countsAt + 8), number(countsAt + 12), number(countsAt + 16)}
	if c.texts > MaxTexts {
		return c, damaged("header")
	}
	if want := c.bytes(); uint64(len(image)) != want {
		return c, fmt.Errorf("%w: %d bytes, not %d", ErrDamaged, len(image), want)
	}
	return c, nil
}

// check makes sure that nothing read later lies outside of its section, whatever
// wrote the image. The postings are a quarter of the time it takes to sum them up.
func (s *Segment) check() error {
	for _, f := range []struct {
		starts  []uint32
		end     int
		section int
	}{
		{s.starts, len(s.postings), startsSection},
		{s.frontStarts, len(s.fronts), frontStartsSection},
		{s.offsets, len(s.strings), offsetsSection},
	} {
		last := uint32(0)
		for _, n := range f.starts {
			if n < last {
				return damaged(sectionNames[f.section])
			}
			last = n
		}
		if f.starts[0] != 0 || int(last) != f.end {
			return damaged(sectionNames[f.section])
		}
	}
	for t := 1; t < s.terms(); t++ {
		if bytes.Compare(s.term(uint32(t-1)), s.term(uint32(t))) >= 0 {
			return damaged(sectionNames[stringsSection])
		}
	}
	most := posting(0)
	for _, p := range s.postings {
		most = max(most, p)
	}
	if len(s.postings) > 0 && int(most.text()) >= len(s.lengths) {
		return damaged(sectionNames[postingsSection])
	}
	return nil
}

// inPlace tells whether numbers in memory stand as they stand in an image.
var inPlace = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// numbers returns the numbers of a section.
func numbers[T ~uint32](section []byte) []T {
	if len(section) == 0 {
		return nil
	}
	first := unsafe.Pointer(unsafe.SliceData(section))
	if inPlace && uintptr(first)%unsafe.Alignof(T(0)) == 0 {
		return unsafe.Slice((*T)(first), len(section)/4)
	}
	out := make([]T, len(section)/4)
	for i := range out {
		out[i] = T(binary.LittleEndian.Uint32(section[4*i:]))
	}
	return out
}
