package library

import (
	"context"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
)

// Upper bounds for the memory that documents of a file take from extraction until they are
// written, in bytes. Measured by TestMemoryOfDocuments.
const (
	memoryOfDocument = 2500 // with one chunk
	memoryOfByte     = 8    // per byte of text: the chunks, counted and indexed
	memoryOfHeld     = 700  // before it is cut, without its text
)

// Memory reserved for one file that is read in a child process, in bytes: for the content of the
// file, at least for the process, at least for its documents, and an upper limit.
const (
	rawMemory   = folder.MaxFile + 1<<20
	leastMemory = 32 << 20
	leastText   = 16 << 20
	mostMemory  = 2 << 30
)

// lightFactor is an upper bound for the memory that a file takes while it is read, cut and
// written, as a multiple of its size. The worst JSON files are lists of numbers, each of which is
// a document; the worst others are pages of tags. There is no such bound for formats that are
// packed. Measured by TestMemoryOfSmallFiles.
func lightFactor(f extract.Format) int64 {
	if f == extract.JSON || f == extract.JSONLines {
		return 1000
	}
	return 400
}

// inChild returns an Extractor that reads in a child process, which gets the grant but for the memory
// of the documents that it returns.
func inChild(child *folder.ChildReader, grant *folder.Grant) folder.Extractor {
	return func(ctx context.Context, format extract.Format, name string, raw []byte) ([]extract.Document, error) {
		text := max(leastText, (grant.Bytes-rawMemory)/4)
		if format == extract.PDF { // it takes much before there is any text
			text = leastText
		}
		memory := grant.Bytes - rawMemory - text
		grant.Outside(memory)
		defer grant.Outside(0)
		return child.Extract(ctx, format, name, raw, memory, text)
	}
}

// An estimate is the memory that some documents of one file take until they are written.
type estimate struct {
	bytes int64
	parse int64 // for cutting one document
	words index.Words
}

// add adds a document and returns the total.
func (e *estimate) add(d chunk.Document) int64 {
	e.bytes += memoryOfDocument + memoryOfByte*int64(len(d.Text))
	e.bytes += e.words.Add(d.Text)
	e.parse = max(e.parse, chunk.Memory(d.Text, d.Form))
	return e.bytes + e.parse
}

// memoryInParts returns an upper bound for the memory that documents of one file take while they
// are written in parts.
func memoryInParts(documents []chunk.Document) int64 {
	held, most := int64(0), int64(0)
	for part := range partsOf(documents) {
		e := new(estimate)
		for _, d := range part {
			held += memoryOfHeld + int64(len(d.Text))
			most = max(most, e.add(d))
		}
	}
	return held + most
}
