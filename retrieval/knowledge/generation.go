package knowledge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strconv"

	"sidenote/retrieval/knowledge/analysis"
)

// version names everything in this package that turns the same documents into
// other chunks or another floor: change it with the chunker or the calibration.
const version = "2"

// A digest is a sum mod 2²⁵⁶ of SHA-256 values: the same documents give the same
// digest in any order, and one that changes costs one subtraction and one
// addition.
type digest [4]uint64 // least significant first

func (d *digest) add(sum [sha256.Size]byte) {
	var carry uint64
	for i := range d {
		d[i], carry = bits.Add64(d[i], binary.LittleEndian.Uint64(sum[8*i:]), carry)
	}
}

// document returns what a document adds to the digest.
func (d Document) digest() [sha256.Size]byte {
	content := sha256.Sum256(fields(d.Name, d.Text, strconv.FormatBool(d.Markdown)))
	const attributes = "" // none yet
	return sha256.Sum256(fields(d.ID, string(content[:]), attributes))
}

// generation returns the digest with the versions of what read the documents;
// deps is that of Deps.
func (d digest) generation(deps string) string {
	d.add(sha256.Sum256(fields("sidenote knowledge", version, analysis.Version, strconv.Itoa(chunkTokens), deps)))
	var out [sha256.Size]byte
	for i, v := range d {
		binary.LittleEndian.PutUint64(out[8*i:], v)
	}
	return hex.EncodeToString(out[:])
}

// fields joins values with their lengths before them, so that no two lists of
// values look the same.
func fields(values ...string) []byte {
	var out []byte
	for _, v := range values {
		out = binary.AppendUvarint(out, uint64(len(v)))
		out = append(out, v...)
	}
	return out
}
