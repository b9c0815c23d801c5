// Package index implements the search index of a base. A segment is an immutable file with the
// postings of some documents, made by package bm25, and their texts, names and attributes. A base
// is searched in several segments at once, each without the documents that were deleted after it
// was written.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

// ErrDamaged is wrapped by the error for a segment that is not as it was written.
var ErrDamaged = errors.New("damaged segment")

// A Segment is a part of the index of a base: postings, their texts, and the documents of these,
// sorted by id. It is one image, on the heap or memory-mapped, so that a query needs neither the
// store nor, in a large base, texts on the heap. Data is copied out of the image unless stated
// otherwise.
type Segment struct {
	Name     string // of the file; "" if it has none
	texts    texts
	postings *bm25.Segment
	owner    *bm25.MappedFile // keeps the image alive if it is a mapped file
	identity *identity
	size     int // size of the image in bytes
}

// Open opens the image of a segment. owner, unless nil, is the file that contains it. name is used
// in errors.
func Open(name string, image []byte, owner *bm25.MappedFile) (*Segment, error) {
	s, err := read(image, owner)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cmp.Or(name, "segment"), err)
	}
	s.Name = name
	return s, nil
}

func read(image []byte, owner *bm25.MappedFile) (*Segment, error) {
	textsImage, postings, err := split(image)
	if err != nil {
		return nil, err
	}
	s := &Segment{owner: owner, identity: new(identity), size: len(image)}
	if s.texts, err = openTexts(textsImage); err != nil {
		return nil, err
	}
	if s.postings, err = bm25.Open(postings, owner); err != nil {
		return nil, err
	}
	if s.postings.Len() != s.texts.count {
		return nil, fmt.Errorf("%w: %d texts, %d of them indexed", ErrDamaged, s.texts.count, s.postings.Len())
	}
	return s, nil
}

// Rows returns the rows of the documents in the store, ascending.
func (s *Segment) Rows() []int64 {
	rows := make([]int64, s.texts.documents)
	for d := range rows {
		rows[d] = s.texts.row(d)
	}
	slices.Sort(rows)
	runtime.KeepAlive(s)
	return rows
}

// WithRows returns the documents whose rows are in a set.
func (s *Segment) WithRows(rows map[int64]bool) (found bm25.Bitmap) {
	for d := range s.texts.documents {
		if rows[s.texts.row(d)] {
			found.Add(d)
		}
	}
	runtime.KeepAlive(s)
	return found
}

// around returns text t of a document that has the texts from first to end (exclusive), and its
// neighbours, after checking them. They are adjacent and copied at once: most of what a search
// costs beyond the index is memory.
func (s *Segment) around(t, first, end int) (before, text, after string, err error) {
	from, to := max(first, t-1), min(end, t+2)
	if err := s.check(from, to); err != nil {
		return "", "", "", err
	}
	start := func(i int) int { return number(s.texts.starts, i) }
	base := start(from)
	all := string(s.texts.bodies[base:start(to)])
	before, text, after = all[:start(t)-base], all[start(t)-base:start(t+1)-base], all[start(t+1)-base:]
	runtime.KeepAlive(s)
	return before, text, after, nil
}

// check returns an error if one of some texts is damaged.
func (s *Segment) check(from, to int) error {
	for i := from; i < to; i++ {
		if !s.texts.whole(i) {
			return &DamageError{Segment: s, err: fmt.Errorf("text %d: %w", i, ErrDamaged)}
		}
	}
	runtime.KeepAlive(s)
	return nil
}

// weight returns the length of the texts of a document.
func (s *Segment) weight(d int) int64 {
	return int64(number(s.texts.starts, s.texts.first(d+1)) - number(s.texts.starts, s.texts.first(d)))
}

// labels returns the id and the name of a document, which share one allocation.
func (s *Segment) labels(d int) (id, name string) {
	from, middle := number(s.texts.offsets, 2*d), number(s.texts.offsets, 2*d+1)
	all := string(s.texts.strings[from:number(s.texts.offsets, 2*d+2)])
	runtime.KeepAlive(s)
	return all[:middle-from], all[middle-from:]
}

// A DamageError means that a segment, or its vectors, are damaged.
type DamageError struct {
	Segment *Segment
	Vectors *Vectors // nil if the segment itself is damaged
	err     error
}

func (e *DamageError) Error() string {
	if e.Vectors != nil {
		return fmt.Sprintf("read %s: %v", cmp.Or(e.Vectors.Name, "vectors"), e.err)
	}
	return fmt.Sprintf("read %s: %v", cmp.Or(e.Segment.Name, "segment"), e.err)
}

func (e *DamageError) Unwrap() error { return e.err }
