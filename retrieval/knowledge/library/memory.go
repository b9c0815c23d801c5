package library

import (
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
)

// What documents of a file take in memory from when they were extracted until they are written,
// at most, in bytes. It is measured: see TestMemoryOfDocuments.
const (
	memoryOfDocument = 2500 // with one chunk
	memoryOfByte     = 8    // of text: the chunks, counted and indexed
)

// What is kept for one file that is read in a process of its own, in bytes: the bytes of the
// file, the least for the process and for its documents, and more than any file takes.
const (
	rawMemory   = folder.MaxFile + 1<<20
	leastMemory = 32 << 20
	leastText   = 16 << 20
	mostMemory  = 2 << 30
)

// lightFactor is how many times its size a file takes at most while it is read, cut and
// written. The worst of JSON are lists of numbers, each of which is a document; of others,
// pages of tags. PDF and DOCX, which are packed, have no such factor. It is measured: see
// TestMemoryOfSmallFiles.
func lightFactor(f extract.Format) int64 {
	if f == extract.JSON || f == extract.JSONLines {
		return 1000
	}
	return 400
}

// An estimate is how much memory documents of one file take.
type estimate struct {
	bytes int64
	parse int64 // what one document takes while it is cut
	words index.Words
}

// add adds a document and returns how much all of them take.
func (e *estimate) add(d chunk.Document) int64 {
	e.bytes += memoryOfDocument + memoryOfByte*int64(len(d.Text))
	e.bytes += e.words.Add(d.Text)
	e.parse = max(e.parse, chunk.Memory(d.Text, d.Form))
	return e.bytes + e.parse
}
