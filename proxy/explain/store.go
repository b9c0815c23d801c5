package explain

import (
	"sort"
	"strings"
	"time"

	"sidenote/retrieval/filter"
)

// Stores give access to the content of knowledge bases.
type Stores interface {
	// Store returns the current content of a base; false if there is no such base.
	Store(id string) (Store, bool)
}

// A Store is an immutable snapshot of a knowledge base.
type Store struct {
	Generation string // "" while it is being indexed
	Created    time.Time
	Changed    time.Time // when its content last changed; zero if never
	Files      int
	Chunks     int   // of a base in an engine elsewhere
	Bytes      int64 // total size of the texts
	Joint      bool  // it can be searched together with other joint bases
	// File returns document i in the order of ids, 0 <= i < Files. It is nil if the base cannot
	// list its documents.
	File func(i int) KnowledgeFile
}

// A KnowledgeFile is a document of a Store.
type KnowledgeFile struct {
	ID, Name   string
	Chunks     int
	Bytes      int64          // of its text
	Attributes map[string]any // for filters; must not be changed
}

// VisibleTo returns the part of s that matches f. If the base cannot list its documents, it
// returns s unchanged, with the number and size of all documents.
func (s Store) VisibleTo(f *filter.Filter) Store {
	if f == nil || s.File == nil {
		return s
	}
	all, n := s.File, s.Files
	var chosen []int
	s.Bytes = 0
	for i := range n {
		if file := all(i); f.Match(file.Attributes) {
			chosen = append(chosen, i)
			s.Bytes += file.Bytes
		}
	}
	s.Files, s.File = len(chosen), func(i int) KnowledgeFile { return all(chosen[i]) }
	return s
}

// Find returns the document with an id.
func (s Store) Find(id string) (KnowledgeFile, bool) {
	if s.File == nil {
		return KnowledgeFile{}, false
	}
	at, ok := sort.Find(s.Files, func(i int) int { return strings.Compare(id, s.File(i).ID) })
	if !ok {
		return KnowledgeFile{}, false
	}
	return s.File(at), true
}

// Unlisted reports whether the base has documents but cannot list them.
func (s Store) Unlisted() bool { return s.File == nil && s.Files > 0 }
