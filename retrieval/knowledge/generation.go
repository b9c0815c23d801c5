package knowledge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/store"
)

// version names everything in this package that turns the same documents into
// other chunks or another floor: change it with the chunker or the calibration.
const version = "3"

// digest returns what a document adds to the sum of its base: the same documents
// have the same sum in any order, and one that changes costs one subtraction and one
// addition.
func (d Document) digest() store.Sum {
	content := sha256.Sum256(fields(d.Name, d.Text, strconv.FormatBool(d.Markdown), strconv.Itoa(int(d.form)), d.lang, d.by))
	attributes := "" // none
	if len(d.Attributes) > 0 {
		attributes = encoded(d.Attributes)
	}
	return sha256.Sum256(fields(d.ID, string(content[:]), attributes))
}

// generation returns the sum with the versions of what read the documents; deps is
// that of Deps.
func generation(sum store.Sum, deps string) string {
	sum = sum.Add(sha256.Sum256(fields("sidenote knowledge", version, extract.Version, analysis.Version, strconv.Itoa(chunkTokens), deps)))
	return hex.EncodeToString(sum[:])
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
