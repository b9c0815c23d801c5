package explain

import (
	"sort"
	"strings"
	"time"

	"sidenote/retrieval/filter"
)

// Stores tell what bases hold.
type Stores interface {
	// Store returns what a base holds now; false if there is no such base.
	Store(id string) (Store, bool)
}

// A Store is the state of a knowledge base at one moment. It does not change.
type Store struct {
	Generation string // "" while it is still indexing
	Created    time.Time
	Changed    time.Time // when its content last changed; zero if it never did
	Files      int
	Bytes      int64 // of their texts
	// File returns the i-th document in the order of ids, 0 <= i < Files. It is nil if
	// the base cannot list its documents.
	File func(i int) KnowledgeFile
}

// A KnowledgeFile is a document of a Store.
type KnowledgeFile struct {
	ID, Name   string
	Chunks     int
	Bytes      int64          // of its text
	Attributes map[string]any // what filters choose by; must not be changed
}

// VisibleTo returns s as it is for a caller who may see the documents that f chooses. Of a
// base that cannot list its documents it shows their number and size.
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

// Find returns a document by its id.
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

// Unlisted reports whether a base has documents but cannot list them.
func (s Store) Unlisted() bool { return s.File == nil && s.Files > 0 }
