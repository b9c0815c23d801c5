package knowledge

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/office"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// version names everything in this package that turns the same documents into
// other chunks or another floor: change it with the chunker or the calibration.
const version = "8"

// Generation returns the digest of a base: the sum of its documents with the versions of
// everything that reads them. deps is Deps.Version.
func Generation(sum chunk.Sum, deps string) string {
	parts := []string{"sidenote knowledge", version, analysis.Version, office.DOCXVersion, strconv.Itoa(chunk.MaxTokens), deps}
	for _, f := range extract.Formats() {
		parts = append(parts, extract.VersionOf(f))
	}
	sum = sum.Add(sha256.Sum256(chunk.Fields(parts...)))
	return hex.EncodeToString(sum[:])
}

// ReaderBytes is the length of a reader's name.
const ReaderBytes = 8

// A ReaderName names everything that turns a file of one format into chunks: a document
// that another reader has cut has to be read again. The analyser is not part of it, as the
// index is made of chunks.
type ReaderName [ReaderBytes]byte

// Readers are the names of the readers, by extract.Format. No two are equal.
type Readers []ReaderName

// Readers returns the readers of this process.
func (d Deps) Readers() Readers {
	var names Readers
	for _, f := range extract.Formats() {
		sum := sha256.Sum256(chunk.Fields("sidenote reader", version, strconv.Itoa(int(f)), extract.VersionOf(f), strconv.Itoa(chunk.MaxTokens), d.Version, d.readerVersion(f)))
		names = append(names, ReaderName(sum[:ReaderBytes]))
	}
	return names
}

// OfPut returns the reader of documents that come from no file.
func (r Readers) OfPut() ReaderName { return r[extract.Unknown] }

// Has tells whether a name is one of these.
func (r Readers) Has(name ReaderName) bool { return slices.Contains(r, name) }

// readerVersion returns the version of a reader that is no part of extract, "" for the others.
func (d Deps) readerVersion(f extract.Format) string {
	switch {
	case f == extract.DOCX:
		return office.DOCXVersion
	case f == extract.PDF && d.PDF != nil:
		return pdf.Version
	}
	return ""
}
