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

// Deps is what reading needs from the rest of Sidenote.
type Deps struct {
	// Counter measures chunks. It is used by several goroutines at once.
	Counter retrieval.Counter
	// Encodings count the tokens of chunks for a library, by name; they too are used by
	// several goroutines at once. Sources come with the count in the query's encoding.
	Encodings map[string]retrieval.Counter
	// Neutralise changes everything in a document that looks like Sidenote's own tags, so
	// that it is none; knowledge is the base that it goes into. It too is used by
	// several goroutines at once; nil leaves texts as they are.
	Neutralise func(knowledge, text string) string
	// Version names the behaviour of all of the above, and is part of the generation:
	// replicas that read or count differently, such as two releases, must not share results
	// or counts.
	Version string
	// PDF reads PDF; nil leaves such files unread, as unsupported.
	PDF *pdf.Reader
	// Room has the memory that a library reads documents in; nil is as much as there is.
	Room *folder.Room
	// Apart extracts the documents of large files for a library, where Room is limited.
	Apart *folder.ChildReader
	// Progress, if not nil, is told now and then how far reading has come; never
	// twice at the same time.
	Progress func(folder.Progress)
}
