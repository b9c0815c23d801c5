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

// ErrDamaged is wrapped by the error for an image that is not as it was written.
var ErrDamaged = errors.New("damaged index image")

// ErrVersion is wrapped by the error for an intact image of another format or analyser: its texts
// must be indexed again.
var ErrVersion = errors.New("index image of another version")

// Open returns the segment of an image that Build or Merge returned. It checks the whole image and
// keeps it: the caller must not change it afterwards. The Segment keeps owner alive, which owns
// the image; nil if none is needed.
//
// Numbers are used in place, which costs nothing and avoids copying what may be a mapped file. If
// that is impossible, on a big-endian processor or for unaligned memory, they are copied.
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

// readHeader returns the sizes in the header after checking it. It checks the checksum before the
// version, so that damage is not mistaken for another version.
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

// check verifies that all references are within their sections, whoever wrote the image. For the
// postings this takes a quarter of the time of their checksum.
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

// inPlace reports whether numbers have the same representation in memory as in an image.
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
