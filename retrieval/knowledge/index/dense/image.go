package dense

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"unsafe"
)

// An image is a header and the sections of a segment, all numbers little-endian, each
// section padded with zeros to a multiple of 8 bytes:
//
//	0   magic
//	8   format
//	12  texts, dimensions
//	20  CRC-32C of the space's name
//	24  CRC-32C of each of the first three sections, padding included
//	36  CRC-32C of the header up to here
//
// The sections are
//
//	set      a bit for each text that has a vector
//	center   the mean of the vectors, and the mean distance from it: float32s
//	codes    by text, a bit for each dimension: 1 where the vector is above the mean
//	vectors  by text, CRC-32C of what follows and the vector as Quantize returns it
//
// The first three, a tenth of the image, are checked when a segment is opened. A vector is checked
// by its own checksum when it is read.
const (
	magic      = "SNdense\n"
	format     = 1
	headerSize = 40

	formatAt     = 8
	textsAt      = 12
	dimensionsAt = 16
	spaceAt      = 20
	sumsAt       = 24
	headerSum    = headerSize - 4
)

// The sections of an image, in order.
const (
	setSection = iota
	centerSection
	codesSection
	vectorsSection
	sections
)

// sumBytes is the size of the checksum before a vector.
const sumBytes = 4

const (
	// MaxTexts is the most texts of a segment.
	MaxTexts = 1 << 24
	// MaxDimensions is the most dimensions of a vector. No known model has more than a fourth of
	// it.
	MaxDimensions = 1 << 14
)

var (
	// ErrDamaged is wrapped by the error for an image that is not as it was written.
	ErrDamaged = errors.New("damaged vectors")
	// ErrVersion is wrapped by the error for an intact image of another format or space: it must
	// be made again.
	ErrVersion = errors.New("vectors of another version")
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sizes are the sizes in a header.
type sizes struct{ texts, dimensions int }

// words returns the number of words of a code.
func (z sizes) words() int { return (z.dimensions + 63) / 64 }

// stride returns the size of a vector with its checksum.
func (z sizes) stride() int { return sumBytes + scaleBytes + z.dimensions }

// bytes returns the size of each section, padded.
func (z sizes) bytes() [sections]uint64 {
	n, d := uint64(z.texts), uint64(z.dimensions)
	return [sections]uint64{
		setSection:     8 * ((n + 63) / 64),
		centerSection:  padded(4 * (d + 1)),
		codesSection:   8 * n * uint64(z.words()),
		vectorsSection: padded(n * uint64(z.stride())),
	}
}

func (z sizes) total() uint64 {
	n := uint64(headerSize)
	for _, size := range z.bytes() {
		n += size
	}
	return n
}

// split returns the sections of an image with these sizes.
func (z sizes) split(image []byte) (section [sections][]byte) {
	at := uint64(headerSize)
	for i, size := range z.bytes() {
		section[i] = image[at : at+size : at+size]
		at += size
	}
	return section
}

func padded(n uint64) uint64 { return (n + 7) &^ 7 }

// Build returns the image of a segment of texts that have vectors in a space. vector returns the
// vector of a text in the form of Quantize, nil if it has none.
func Build(space string, texts, dimensions int, vector func(text int) []byte) ([]byte, error) {
	if texts < 0 || texts > MaxTexts || dimensions <= 0 || dimensions > MaxDimensions {
		return nil, fmt.Errorf("%d vectors of %d dimensions: too many", texts, dimensions)
	}
	z := sizes{texts, dimensions}
	image := make([]byte, z.total())
	section := z.split(image)
	for t := range texts {
		kept := vector(t)
		if kept == nil {
			continue
		}
		if !Valid(kept, dimensions) {
			return nil, fmt.Errorf("text %d: %w of %d dimensions", t, ErrVector, dimensions)
		}
		row := section[vectorsSection][t*z.stride():][:z.stride()]
		copy(row[sumBytes:], kept)
		binary.LittleEndian.PutUint32(row, crc32.Checksum(kept, castagnoli))
		section[setSection][t/8] |= 1 << (t % 8)
	}
	s := Segment{sizes: z, set: words(section[setSection]), vectors: section[vectorsSection]}
	s.measure()
	for i, c := range append(s.center, s.radius) {
		binary.LittleEndian.PutUint32(section[centerSection][4*i:], math.Float32bits(c))
	}
	codes := section[codesSection]
	for t := range s.all {
		for i, c := range s.components(t) {
			if c > s.center[i] {
				at := t*8*z.words() + i/8
				codes[at] |= 1 << (i % 8)
			}
		}
	}
	copy(image, magic)
	for at, n := range map[int]int{formatAt: format, textsAt: texts, dimensionsAt: dimensions} {
		binary.LittleEndian.PutUint32(image[at:], uint32(n))
	}
	binary.LittleEndian.PutUint32(image[spaceAt:], crc32.Checksum([]byte(space), castagnoli))
	for i, bytes := range section[:vectorsSection] {
		binary.LittleEndian.PutUint32(image[sumsAt+4*i:], crc32.Checksum(bytes, castagnoli))
	}
	binary.LittleEndian.PutUint32(image[headerSum:], crc32.Checksum(image[:headerSum], castagnoli))
	return image, nil
}

// Open returns the segment of an image that Build returned for a space. It keeps the image: the
// caller must not change it afterwards. The Segment keeps owner alive, which owns the image; nil
// if none is needed.
func Open(image []byte, space string, owner any) (*Segment, error) {
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(image[at:]) }
	if len(image) < headerSize || string(image[:len(magic)]) != magic || crc32.Checksum(image[:headerSum], castagnoli) != number(headerSum) {
		return nil, damaged("header")
	}
	if f := number(formatAt); f != format {
		return nil, fmt.Errorf("%w: format %d, not %d", ErrVersion, f, format)
	}
	if number(spaceAt) != crc32.Checksum([]byte(space), castagnoli) {
		return nil, fmt.Errorf("%w: not of %s", ErrVersion, space)
	}
	z := sizes{int(number(textsAt)), int(number(dimensionsAt))}
	if z.texts > MaxTexts || z.dimensions <= 0 || z.dimensions > MaxDimensions || uint64(len(image)) != z.total() {
		return nil, damaged("size")
	}
	section := z.split(image)
	for i, name := range [...]string{"set", "center", "codes"} {
		if crc32.Checksum(section[i], castagnoli) != number(sumsAt+4*i) {
			return nil, damaged(name)
		}
	}
	// The set is copied, so that a file that is truncated later does not seem to have fewer
	// vectors.
	s := &Segment{sizes: z, owner: owner, set: slices.Clone(words(section[setSection])), codes: words(section[codesSection]), vectors: section[vectorsSection]}
	for at := range z.dimensions + 1 {
		c := math.Float32frombits(binary.LittleEndian.Uint32(section[centerSection][4*at:]))
		if !(math.Abs(float64(c)) <= math.Sqrt2*2) { // rejects NaN, too; vectors have length 1, plus a margin
			return nil, damaged("center")
		}
		s.center = append(s.center, c)
	}
	s.center, s.radius = s.center[:z.dimensions], s.center[z.dimensions]
	if rest := z.texts % 64; rest > 0 && s.set[len(s.set)-1]>>rest != 0 {
		return nil, damaged("set")
	}
	if used := uint64(z.texts * z.stride()); !zeros(s.vectors[used:]) {
		return nil, damaged("padding")
	}
	return s, nil
}

func damaged(where string) error { return fmt.Errorf("%w: %s", ErrDamaged, where) }

func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// inPlace reports whether numbers have the same representation in memory as in an image.
var inPlace = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// words returns the numbers of a section in place, or a copy if that is impossible: on a
// big-endian processor or for unaligned memory.
func words(section []byte) []uint64 {
	first := unsafe.Pointer(unsafe.SliceData(section))
	if inPlace && uintptr(first)%unsafe.Alignof(uint64(0)) == 0 {
		return unsafe.Slice((*uint64)(first), len(section)/8)
	}
	out := make([]uint64, len(section)/8)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(section[8*i:])
	}
	return out
}
