package dense

import (
	"encoding/binary"
	"hash/crc32"
)

// Seal corrects the checksums of a modified image, and of every other vector, as far as the header
// is usable.
func Seal(image []byte) {
	if len(image) < headerSize {
		return
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint32(image[at:])) }
	z := sizes{number(textsAt), number(dimensionsAt)}
	if z.texts <= MaxTexts && z.dimensions <= MaxDimensions && z.total() <= uint64(len(image)) {
		section := z.split(image)
		for i, bytes := range section[:vectorsSection] {
			binary.LittleEndian.PutUint32(image[sumsAt+4*i:], crc32.Checksum(bytes, castagnoli))
		}
		for t := 0; t < z.texts && z.dimensions > 0; t += 2 { // the others stay damaged
			row := section[vectorsSection][t*z.stride():][:z.stride()]
			binary.LittleEndian.PutUint32(row, crc32.Checksum(row[sumBytes:], castagnoli))
		}
	}
	binary.LittleEndian.PutUint32(image[spaceAt:], crc32.Checksum([]byte("space"), castagnoli))
	binary.LittleEndian.PutUint32(image[headerSum:], crc32.Checksum(image[:headerSum], castagnoli))
}

// Stride returns the size of a vector in an image.
func Stride(dimensions int) int { return sizes{1, dimensions}.stride() }

// Rest returns the size of all vectors in an image.
func Rest(texts, dimensions int) int { return int(sizes{texts, dimensions}.bytes()[vectorsSection]) }
