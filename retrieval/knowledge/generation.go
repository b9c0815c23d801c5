package knowledge

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/docx"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// version names everything in this package that turns the same documents into
// other chunks or another floor: change it with the chunker or the calibration.
const version = "6"

// Generation returns the digest of a base: the sum of its documents with the versions of
// everything that reads them. deps is Deps.Version.
func Generation(sum document.Sum, deps string) string {
	sum = sum.Add(sha256.Sum256(document.Fields("sidenote knowledge", version, extract.Version, docx.Version, analysis.Version, strconv.Itoa(chunk.MaxTokens), deps)))
	return hex.EncodeToString(sum[:])
}

// ReaderBytes is the length of a reader's name.
const ReaderBytes = 8

// Reader names everything that turns a text into chunks: a document that another reader
// has cut has to be read again. The analyser is not part of it, as the index is made of
// chunks.
func (d Deps) Reader() [ReaderBytes]byte {
	byPDF := ""
	if d.PDF != nil {
		byPDF = pdf.Version
	}
	sum := sha256.Sum256(document.Fields("sidenote reader", version, extract.Version, docx.Version, strconv.Itoa(chunk.MaxTokens), d.Version, byPDF))
	return [ReaderBytes]byte(sum[:ReaderBytes])
}
