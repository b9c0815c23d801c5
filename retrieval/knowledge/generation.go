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
	"sidenote/retrieval/knowledge/index"
)

// version stands for everything in this package that affects chunks or floor. Change it when the
// chunker or the calibration changes.
const version = "10"

// Generation returns the digest of a base: the sum of its documents combined with the versions of
// everything that reads them. deps is Deps.Version.
func Generation(sum chunk.Sum, deps string) string {
	parts := []string{"sidenote knowledge", version, analysis.Version, office.Versions(), strconv.Itoa(chunk.MaxTokens), deps, index.TwinsVersion}
	for _, f := range extract.Formats() {
		parts = append(parts, extract.VersionOf(f))
	}
	sum = sum.Add(sha256.Sum256(chunk.Fields(parts...)))
	return hex.EncodeToString(sum[:])
}

// ReaderBytes is the length of a ReaderName.
const ReaderBytes = 8

// A ReaderName identifies everything that turns a file of one format into chunks. A document cut
// by another reader must be read again. The analyser is not included, because the index can be
// rebuilt from chunks.
type ReaderName [ReaderBytes]byte

// Readers are the reader names, indexed by extract.Format. All are distinct.
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

// OfPut returns the reader of documents that do not come from a file.
func (r Readers) OfPut() ReaderName { return r[extract.Unknown] }

// Has reports whether name is one of r.
func (r Readers) Has(name ReaderName) bool { return slices.Contains(r, name) }

// readerVersion returns the version of a reader outside package extract, and "" for the others.
func (d Deps) readerVersion(f extract.Format) string {
	if f == extract.PDF && d.PDF != nil {
		return pdf.Version
	}
	return office.VersionOf(f)
}
