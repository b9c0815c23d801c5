package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

// The file of a segment consists of a header, the image of its texts and the image of its
// postings. All numbers are little-endian:
//
//	0   magic
//	8   format
//	12  CRC-32C of the header, without these four bytes
//	16  size of the image of texts, size of that of postings
//
// The image of texts consists of a header, a table, the sketches of the texts and the texts, each
// padded with zeros to a multiple of 8 bytes:
//
//	0   magic
//	8   documents, sections, sets of attributes, texts, bytes of strings, bytes of texts,
//	    counters of tokens, keys of attributes, values of these, pairs of a value and a set
//	48  CRC-32C of the table, padding included
//	52  CRC-32C of the header up to here
//
// The table has one checksum, which is checked when the segment is opened. Each text has one for
// itself and its sketch, which is checked when the text is read: opening a large base does not
// read its texts.
const (
	fileMagic  = "SNshelf\n"
	fileFormat = 5
	fileHeader = 32

	textsMagic  = "SNtexts\n"
	textsHeader = 56
	tableSum    = 48
	headerSum   = 52
)

// maxBodies limits the texts of one segment, in bytes: offsets must fit into 32 bits.
const maxBodies = math.MaxUint32

// maxCounters limits the token counts of a text, so that no size overflows.
const maxCounters = 1 << 10

// textCounts are the sizes in a header.
type textCounts struct {
	documents, sections, sets, texts, strings, bodies, counters uint64
	keys, values, pairs                                         uint64
}

// countsOf reads the sizes from an image of texts.
func countsOf(image []byte) textCounts {
	at := func(i int) uint64 { return uint64(number(image, i)) }
	return textCounts{
		documents: at(2), sections: at(3), sets: at(4), texts: at(5), strings: at(6), bodies: at(7), counters: min(at(8), maxCounters),
		keys: at(9), values: at(10), pairs: at(11),
	}
}

// lists returns the size of each list of the table.
func (c textCounts) lists() [12]uint64 {
	return [...]uint64{
		8 * c.documents, 4 * (c.documents + 1), 4 * c.documents, 4 * (2*c.documents + c.sections + c.sets + c.counters + c.keys + c.values + 1),
		4 * c.texts, 4 * (c.texts + 1), 4 * c.texts, 4 * c.texts * c.counters,
		4 * (c.keys + 1), 4 * (c.values + 1), 4 * c.pairs, c.strings,
	}
}

func (c textCounts) table() (n uint64) {
	for _, size := range c.lists() {
		n += size
	}
	return padded(n)
}

// sketches returns the size of the sketches, a multiple of 8.
func (c textCounts) sketches() uint64 { return retrieval.SketchBytes * c.texts }

func (c textCounts) bytes() uint64 {
	return textsHeader + c.table() + c.sketches() + padded(c.bodies)
}

func padded(n uint64) uint64 { return (n + 7) &^ 7 }

// slice returns the lists of the table and the bodies, which refer to image.
func (c textCounts) slice(image []byte) texts {
	x := texts{
		documents: int(c.documents), sections: int(c.sections), sets: int(c.sets), count: int(c.texts), counters: int(c.counters),
		keys: int(c.keys), values: int(c.values),
	}
	at := uint64(textsHeader)
	sizes := c.lists()
	for i, list := range []*[]byte{&x.rows, &x.firsts, &x.setOf, &x.offsets, &x.sectionOf, &x.starts, &x.sums, &x.counts, &x.keyStarts, &x.valueStarts, &x.pairs, &x.strings} {
		*list = image[at : at+sizes[i] : at+sizes[i]]
		at += sizes[i]
	}
	at = textsHeader + c.table()
	x.sketches = image[at : at+c.sketches() : at+c.sketches()]
	at += c.sketches()
	x.bodies = image[at : at+c.bodies : at+c.bodies]
	return x
}

// split returns the two images in the file of a segment.
func split(image []byte) (textsImage, postings []byte, err error) {
	if len(image) < fileHeader || string(image[:8]) != fileMagic || number(image, 3) != int(headerChecksum(image)) {
		return nil, nil, fmt.Errorf("%w: header", ErrDamaged)
	}
	if f := number(image, 2); f != fileFormat {
		return nil, nil, fmt.Errorf("%w: segment format %d, not %d", bm25.ErrVersion, f, fileFormat)
	}
	first, second := binary.LittleEndian.Uint64(image[16:]), binary.LittleEndian.Uint64(image[24:])
	rest := image[fileHeader:]
	if first > uint64(len(rest)) || second != uint64(len(rest))-first {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(image))
	}
	return rest[:first:first], rest[first:], nil
}

// headerChecksum returns the checksum of a file header.
func headerChecksum(image []byte) uint32 {
	return crc32.Update(crc32.Checksum(image[:12], crc32c()), crc32c(), image[16:fileHeader])
}

// openTexts opens an image of texts. It checks that no later read can be outside the image, even
// if the image is malicious.
func openTexts(image []byte) (texts, error) {
	damaged := func(where string) (texts, error) { return texts{}, fmt.Errorf("%w: %s", ErrDamaged, where) }
	if len(image) < textsHeader || string(image[:8]) != textsMagic || number(image, headerSum/4) != int(crc32.Checksum(image[:headerSum], crc32c())) {
		return damaged("header of texts")
	}
	c := countsOf(image)
	if uint64(len(image)) != c.bytes() {
		return damaged("size of texts")
	}
	table := image[textsHeader : textsHeader+c.table()]
	if number(image, tableSum/4) != int(crc32.Checksum(table, crc32c())) {
		return damaged("table of texts")
	}
	x := c.slice(image)
	if !zeros(image[headerSum+4:textsHeader]) || !zeros(image[uint64(len(image))-padded(c.bodies)+c.bodies:]) {
		return damaged("padding of texts")
	}
	if where := x.check(); where != "" {
		return damaged(where)
	}
	return x, nil
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// check returns the name of a list with an invalid reference to another; "" if there is none.
func (x *texts) check() string {
	ascends := func(list []byte, n, end int) bool {
		last := 0
		for i := range n + 1 {
			v := number(list, i)
			if v < last {
				return false
			}
			last = v
		}
		return number(list, 0) == 0 && last == end
	}
	switch {
	case !ascends(x.firsts, x.documents, x.count):
		return "first texts"
	case !ascends(x.offsets, 2*x.documents+x.sections+x.sets+x.counters+x.keys+x.values, len(x.strings)):
		return "strings"
	case !ascends(x.starts, x.count, len(x.bodies)):
		return "places of texts"
	case !ascends(x.keyStarts, x.keys, x.values), !ascends(x.valueStarts, x.values, len(x.pairs)/4), !valueIndex{x}.check():
		return "values of attributes"
	}
	for t := range x.count {
		if number(x.sectionOf, t) >= x.sections {
			return "sections"
		}
	}
	for d := range x.documents {
		if number(x.setOf, d) >= x.sets {
			return "attributes"
		}
	}
	for d := 1; d < x.documents; d++ {
		if bytes.Compare(x.id(d-1), x.id(d)) >= 0 {
			return "document ids"
		}
	}
	return ""
}
