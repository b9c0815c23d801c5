package bm25

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"sidenote/retrieval/analysis"
)

// An image is a header and the sections of a segment, all numbers little-endian,
// each section padded with zeros to a multiple of 8 bytes:
//
//	0   magic
//	8   format
//	12  texts, postings, terms, fronts, bytes of strings: the sizes of the sections
//	32  version of the analyser
//	48  CRC-32C of each section, padding included
//	76  CRC-32C of the header up to here
//
// Every byte is covered by a checksum, and the counts determine where the sections are: any
// damaged image is rejected.
const (
	magic      = "SNbm25\r\n"
	format     = 1
	headerSize = 80

	formatAt   = 8
	countsAt   = 12
	analyserAt = 32
	sumsAt     = 48
	headerSum  = headerSize - 4
)

// The sections of an image, in order.
const (
	lengthsSection = iota
	postingsSection
	startsSection
	frontsSection
	frontStartsSection
	offsetsSection
	stringsSection
	sections
)

var sectionNames = [sections]string{"lengths", "postings", "starts", "fronts", "front starts", "offsets", "strings"}

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// counts are the sizes in a header.
type counts struct{ texts, postings, terms, fronts, strings uint32 }

// sizes returns the size of each section without padding.
func (c counts) sizes() [sections]uint64 {
	return [sections]uint64{
		lengthsSection:     4 * uint64(c.texts),
		postingsSection:    4 * uint64(c.postings),
		startsSection:      4 * (uint64(c.terms) + 1),
		frontsSection:      4 * uint64(c.fronts),
		frontStartsSection: 4 * (uint64(c.terms) + 1),
		offsetsSection:     4 * (uint64(c.terms) + 1),
		stringsSection:     uint64(c.strings),
	}
}

// padded rounds up to a multiple of 8.
func padded(n uint64) uint64 { return (n + 7) &^ 7 }

// bytes returns the size of the whole image.
func (c counts) bytes() uint64 {
	n := uint64(headerSize)
	for _, size := range c.sizes() {
		n += padded(size)
	}
	return n
}

// ErrFull means that texts have more postings, or more or longer terms, than one segment can hold.
var ErrFull = errors.New("too much for one segment")

// A draft is the data of an image.
type draft struct {
	lengths  []uint32
	postings []posting
	starts   []uint32
	offsets  []uint32
	strings  []byte
}

// image encodes the draft.
func (d *draft) image() ([]byte, error) {
	if len(d.lengths) > MaxTexts || uint64(len(d.postings)) > math.MaxUint32 || uint64(len(d.strings)) > math.MaxUint32 {
		return nil, fmt.Errorf("%d texts with %d postings: %w", len(d.lengths), len(d.postings), ErrFull)
	}
	fronts, frontStarts := frontsOf(d)
	c := counts{uint32(len(d.lengths)), uint32(len(d.postings)), uint32(len(d.starts) - 1), uint32(len(fronts)), uint32(len(d.strings))}
	image := make([]byte, c.bytes())
	copy(image, magic)
	binary.LittleEndian.PutUint32(image[formatAt:], format)
	for i, n := range [...]uint32{c.texts, c.postings, c.terms, c.fronts, c.strings} {
		binary.LittleEndian.PutUint32(image[countsAt+4*i:], n)
	}
	copy(image[analyserAt:sumsAt], analysis.Version)
	at := uint64(headerSize)
	fill := [sections]func(section []byte){
		lengthsSection:     func(section []byte) { put(section, d.lengths) },
		postingsSection:    func(section []byte) { put(section, d.postings) },
		startsSection:      func(section []byte) { put(section, d.starts) },
		frontsSection:      func(section []byte) { put(section, fronts) },
		frontStartsSection: func(section []byte) { put(section, frontStarts) },
		offsetsSection:     func(section []byte) { put(section, d.offsets) },
		stringsSection:     func(section []byte) { copy(section, d.strings) },
	}
	for i, size := range c.sizes() {
		section := image[at : at+padded(size)]
		fill[i](section)
		binary.LittleEndian.PutUint32(image[sumsAt+4*i:], crc32.Checksum(section, castagnoli))
		at += uint64(len(section))
	}
	binary.LittleEndian.PutUint32(image[headerSum:], crc32.Checksum(image[:headerSum], castagnoli))
	return image, nil
}

// put encodes numbers.
func put[T ~uint32](dst []byte, numbers []T) {
	for i, n := range numbers {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(n))
	}
}
