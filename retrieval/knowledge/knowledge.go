// Package knowledge is the embedded engine: a Base answers questions from the documents of
// one knowledge base. It needs no server and no key.
//
// Load reads a folder of documents in many formats (packages folder and extract), cuts each
// document along its own structure (chunk) and indexes the chunks (index). That makes a
// Content, which never changes; a Base swaps the Content it answers from as a whole, so a
// search never sees half of an index. Package library keeps bases on disk (store) and reads
// only what changed.
package knowledge

import (
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/folder"
)

// Deps are the dependencies of reading documents.
type Deps struct {
	// Counter measures chunks. It must be safe for concurrent use.
	Counter retrieval.Counter
	// Encodings count the tokens of chunks for a library, by name; they must be safe for
	// concurrent use. Sources have the count in the query's encoding.
	Encodings map[string]retrieval.Counter
	// Neutralise changes everything in a document that looks like one of Sidenote's own tags, so
	// that it is not taken for one; knowledge is the base that the document belongs to. It must be
	// safe for concurrent use; nil leaves texts unchanged.
	Neutralise func(knowledge, text string) string
	// Version identifies the behaviour of all of the above and is part of the generation: replicas
	// that read or count differently, such as two releases, must not share results or counts.
	Version string
	// PDF reads PDF files; if nil, they are skipped as unsupported.
	PDF *pdf.Reader
	// Room limits the memory in which a library reads documents; nil means no limit.
	Memory *folder.MemoryLimit
	// Apart extracts large files for a library in a child process, if Room is limited.
	Apart *folder.ChildReader
	// Progress, if not nil, is called from time to time with the progress of reading, never
	// concurrently.
	Progress func(folder.Progress)
}
