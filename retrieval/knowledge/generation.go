package knowledge

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/extract"
)

// version names everything in this package that turns the same documents into
// other chunks or another floor: change it with the chunker or the calibration.
const version = "3"

// generation returns the sum with the versions of what read the documents; deps is
// that of Deps.
func generation(sum document.Sum, deps string) string {
	sum = sum.Add(sha256.Sum256(document.Fields("sidenote knowledge", version, extract.Version, analysis.Version, strconv.Itoa(chunk.MaxTokens), deps)))
	return hex.EncodeToString(sum[:])
}
