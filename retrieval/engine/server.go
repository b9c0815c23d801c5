// Package engine searches and writes knowledge bases in a search engine elsewhere: a database or a
// search server that many Sidenotes share. A Server, of package postgres or opensearch, speaks to
// the engine. This package does the rest the same for all of them: it ranks what a Server finds as
// the embedded engine ranks its own hits, watches generations, and writes folders.
//
// A Server returns candidates with raw scores, never a fused rank: a fused rank has no floor, so an
// irrelevant text could not be told from an answer.
package engine

import (
	"context"
	"errors"
	"iter"
	"time"

	"sidenote/retrieval/filter"
)

// The errors of a Server. Others mean that the engine failed or did not answer.
var (
	ErrNoBase     = errors.New("no such knowledge base in the engine") // it was never written, or its schema is missing
	ErrSchema     = errors.New("schema of another version")            // wrapped with both versions
	ErrLeaseTaken = errors.New("another process writes the base")      // of Acquire
	ErrLeaseLost  = errors.New("the lease was taken over")             // of the methods of a Lease
	ErrDenied     = errors.New("permission denied by the engine")
	ErrLogin      = errors.New("user, password or key refused by the engine")
	ErrRefused    = errors.New("the engine refused the request") // it works, but not with this question or filter
)

// A Server reads bases in one engine. It is safe for concurrent use. Every call returns by ctx's
// deadline.
type Server interface {
	// States returns the states of bases, in their order, in one round trip. A base that does not
	// exist has the zero State, apart from Base. The error is one of all bases: what is wrong with one of
	// several, though the engine answers, is its Trouble.
	States(ctx context.Context, bases []string) ([]State, error)
	// Search finds candidates in some bases, ranked as one, in one round trip.
	Search(ctx context.Context, s *Search) (*Found, error)
	// Passage returns the chunks from first to end (exclusive) of a document, in order; none if
	// there is no such document or it does not match f. f is nil for all documents.
	Passage(ctx context.Context, base, doc string, first, end int, f *filter.Filter, tenant string) ([]Chunk, error)
	// Sample returns about n chunks of a base with their vectors: always the same ones for the same
	// content, if the engine can.
	Sample(ctx context.Context, base string, n int) ([]Chunk, error)
	// Vocabulary returns the most frequent terms of a base, at most most, most frequent first; nil if
	// the engine does not have Sidenote's terms (a Mapping).
	Vocabulary(ctx context.Context, base string, most int) ([]TermCount, error)
	// Measures returns what Lease.SetMeasures stored; nil if nothing was.
	Measures(ctx context.Context, base string) ([]byte, error)
	// Filterable returns an error that names the part of a filter that the engine cannot evaluate
	// for a base; nil if it can evaluate it whole.
	Filterable(base string, f *filter.Filter) error
	// Setup returns the statements or requests that create or migrate the schema, as text for people
	// who run them themselves.
	Setup(base string) (string, error)
	// Init runs them. It changes nothing if the schema is up to date.
	Init(ctx context.Context, base string) error
	// Acquire makes the caller the only writer of a base, for ttl after the last renewal by any
	// method of the Lease. It returns ErrLeaseTaken, wrapped with the owner and its age, while
	// another lease is valid. Times are compared by the engine's clock only.
	Acquire(ctx context.Context, base, owner string, ttl time.Duration) (Lease, error)
	Close() error
}

// A State describes the visible content of a base.
type State struct {
	Base       string
	Generation string // digest of the visible content, lower-case hex; "" before the first Commit
	Documents  int
	Chunks     int
	Bytes      int64  // length of the texts
	Length     uint64 // sum of Chunk.Length
	Distinct   uint64 // sum of the numbers of distinct terms of the chunks
	Embedded   int    // chunks that have a vector
	Space      string // of the vectors, see retrieval.Space.String; "" if there are none
	Dimensions int    // of the vectors; 0 if there are none
	Measures   string // identifies what Measures returns; "" if nothing is stored
	Trouble    string // why the base cannot be searched, for people; then all else but Base is zero
}

// A Search asks for candidates.
type Search struct {
	Bases    []string
	Question string    // as asked, for engines that analyse questions themselves (a Mapping)
	Terms    []Term    // what Sidenote searches for, distinct; empty: no candidates by words
	Vector   []float32 // of the question, of unit length; nil: no candidates by vector
	Depth    int       // candidates by words, and as many by vector
	// Neighbours is how many of the best candidates by words, and by vector, have Before and After.
	Neighbours int
	Filter     *filter.Filter // nil: all documents
	Tenant     string         // for row-level security
}

// A Term is searched in chunks. Weight is greater than 0.
type Term struct {
	Text   string
	Weight float64
}

// A TermCount says how common a term is.
type TermCount struct {
	Text  string
	Texts int   // chunks that contain it
	Total int64 // its occurrences in them
}

// Found is the answer to a Search.
type Found struct {
	// States are those of the bases, in the order of Search.Bases, at the time of the search; of a
	// Mapping the one that was last read.
	States []State
	// Counts are the statistics of the terms by base: Counts[i][j] is about Search.Terms[i] in
	// Search.Bases[j], over the whole base whatever the filter. nil with a Mapping.
	Counts [][]TermCount
	// Candidates are the union of the best Depth chunks by words and the best Depth by vector, each
	// once. Only their set matters, not their order, but by words the best must be in it: it is
	// ranked by Packed, Length and Counts.
	Candidates []Candidate
}

// A Candidate is a chunk that a search found.
type Candidate struct {
	Chunk
	Base       int     // index into Search.Bases
	ByWords    int     // its rank among the candidates by words, from 1; 0: it was not found by words
	ByVector   int     // its rank among the candidates by vector, from 1; 0: it was not found by vector
	Cosine     float64 // of the question and its vector, whichever way it was found; 0 without a vector
	Chunks     int     // number of chunks of its document
	AllLengths int64   // sum of Chunk.Length of its document
}

// A Chunk is a chunk of a document as an engine stores it.
type Chunk struct {
	Doc        string // id of the document in its base
	Ordinal    int    // from 0
	Name       string // of the document
	Section    string
	Text       string
	Before     string // text of the previous chunk of the document; "" if it was not asked for
	After      string // of the next
	Attributes string // of the document, a JSON object; "" or "{}" for none
	Tokens     string // counts of tokens by counter, see TokensOf
	Sketch     []byte // retrieval.SketchBytes; nil if unknown
	Length     int    // number of terms
	Packed     []byte // its terms, see Pack; nil with a Mapping
	Vector     []float32
	VectorKey  []byte // identifies the passage and its space, see retrieval.Space.Key; nil without a vector
}

// A Lease is the right to write a base. Its methods fail with ErrLeaseLost once another writer has
// taken the base over: then nothing of the call is visible. Each renews the lease.
//
// What is put becomes visible with Commit, all at once. What was put before a writer died is kept
// for the next one: Known returns it.
type Lease interface {
	Renew(ctx context.Context) error
	// Known yields the documents that the next Commit makes visible, unless they are put again or
	// deleted: those of the visible content and those put since.
	Known(ctx context.Context) iter.Seq2[Known, error]
	// Vectors returns the stored vectors with some keys, visible or not.
	Vectors(ctx context.Context, keys [][]byte) (map[string][]float32, error)
	// Put replaces documents, and deletes others, in one transaction or so that it can be repeated.
	Put(ctx context.Context, documents []Document, deleted []string) error
	// Commit makes what was put visible, with the generation and the vector space ("" for none).
	Commit(ctx context.Context, generation, space string) error
	// SetMeasures stores what Measures returns. version becomes State.Measures.
	SetMeasures(ctx context.Context, version string, measures []byte) error
	// Clean removes from the storage what is not visible any more and was not for at least grace, a
	// part at a time; more reports whether there is more.
	Clean(ctx context.Context, grace time.Duration) (more bool, err error)
	// Release ends the lease.
	Release(ctx context.Context) error
}

// Known identifies a document that a base has.
type Known struct {
	ID     string
	Source string // the file, see Document
	Stamp  string
	Sum    [32]byte
	Chunks int
	// Embedded is the number of its chunks that have a vector.
	Embedded int
}

// A Document is written to an engine.
type Document struct {
	ID, Name   string
	Source     string   // the file that it came from; "" if it did not come from a file
	Stamp      string   // identifies the version of the file and of its reader
	Sum        [32]byte // its contribution to the sum of the base, see chunk.Document
	Attributes string   // a JSON object with sorted keys; "{}" for none
	Chunks     []Chunk  // all of the document; Doc, Name, Before, After and Attributes are empty
	// Terms are the terms of its chunks: in Texts of its chunks, Total times. Sorted by Text.
	Terms []TermCount
	// Words are the terms of each chunk in order, with repetitions, for engines that rank by them.
	Words [][]string
}
