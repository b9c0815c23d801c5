// Package knowledge is the embedded engine: it reads a folder of documents in
// many formats (package extract), cuts each document along its own structure,
// indexes the chunks and answers questions from them. It needs no server and no key.
//
// Reading makes a Content, which never changes; a Base holds the Content it
// answers from and swaps it whole, so a search never sees half of an index.
//
// A Library keeps bases on disk: it reads only what changed, and what its bases answer
// from lies in files that are mapped.
package knowledge

import (
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/extract/child"
	"sidenote/retrieval/knowledge/folder"
)

// Deps is what reading needs from the rest of Sidenote.
type Deps struct {
	// Counter measures chunks. It is used by several goroutines at once.
	Counter retrieval.Counter
	// Encodings count the tokens of chunks for a Library, by name; they too are used by
	// several goroutines at once. Sources come with the count in the query's encoding.
	Encodings map[string]retrieval.Counter
	// Neutralise takes the power from everything in a document that looks like
	// Sidenote's own tags; knowledge is the base that it goes into. It too is used by
	// several goroutines at once; nil leaves texts as they are.
	Neutralise func(knowledge, text string) string
	// Version names what all of them do: replicas that read the same documents
	// otherwise, as two releases may, must not share what they find, nor trust what the
	// other counted. It is part of the generation.
	Version string
	// Child reads the formats that are read in a process of their own; nil leaves
	// files in them unread, as unsupported.
	Child *child.Runner
	// Progress, if not nil, is told now and then how far reading has come; never
	// twice at the same time.
	Progress func(folder.Progress)
}
