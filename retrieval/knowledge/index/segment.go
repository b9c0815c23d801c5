// Package index implements the search index of a base. A segment is an immutable file with the
// postings of some documents, made by package bm25, and their texts, names and attributes. A base
// is searched in several segments at once, each without the documents that were deleted after it
// was written.
package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"sort"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
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
	undated  knownBits // see retrieval.Mark
	twinning *twinning
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
	s := &Segment{owner: owner, identity: new(identity), size: len(image), twinning: new(twinning)}
	if s.texts, err = openTexts(textsImage); err != nil {
		return nil, err
	}
	s.undated = newKnownBits(s.texts.documents)
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

// Span returns the texts of the document that contains a text.
func (s Segments) Span(ref bm25.Ref) bm25.Span {
	texts := &s[ref.Segment].texts
	d := texts.document(ref.Text)
	span := bm25.Span{Segment: ref.Segment, First: texts.first(d), End: texts.first(d + 1)}
	runtime.KeepAlive(s)
	return span
}

// texts is the image of documents and their texts; image.go describes the layout. Numbers are read
// from the image in place.
type texts struct {
	documents, sections, sets, count, counters, keys, values int

	rows      []byte // by document
	firsts    []byte // by document: its first text; then count
	setOf     []byte // by document: its attributes
	offsets   []byte // of strings: id and name by document, sections, sets of attributes, names of counters, keys, values; then the end
	sectionOf []byte // by text
	starts    []byte // by text: offset in bodies; then the end
	sums      []byte // checksums, by text
	counts    []byte // by counter, by text: its tokens, 0 if unknown
	strings   []byte

	// See values.go.
	keyStarts   []byte // by attribute key: its first value; then values
	valueStarts []byte // by value: its first pair; then the end
	pairs       []byte // the sets that have the value

	sketches []byte // by text
	bodies   []byte
}

// number returns the i-th number of a list.
func number(list []byte, i int) int { return int(binary.LittleEndian.Uint32(list[4*i:])) }

func (x *texts) row(d int) int64   { return int64(binary.LittleEndian.Uint64(x.rows[8*d:])) }
func (x *texts) first(d int) int   { return number(x.firsts, d) }
func (x *texts) id(d int) []byte   { return x.string(2 * d) }
func (x *texts) name(d int) []byte { return x.string(2*d + 1) }

func (x *texts) section(t int) []byte { return x.string(2*x.documents + number(x.sectionOf, t)) }

// set returns a set of attributes as JSON.
func (x *texts) set(i int) []byte { return x.string(2*x.documents + x.sections + i) }

func (x *texts) counter(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + i)
}

// key returns an attribute key.
func (x *texts) key(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + x.counters + i)
}

// value returns an attribute value, see values.go.
func (x *texts) value(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + x.counters + x.keys + i)
}

// tokens returns the token count of a text by a counter, 0 if unknown.
func (x *texts) tokens(t int, by string) int {
	for i := range x.counters {
		if string(x.counter(i)) == by {
			return number(x.counts, i*x.count+t)
		}
	}
	return 0
}

// countsOf returns all token counts of a text.
func (x *texts) countsOf(t int) (counts []chunk.Count) {
	for i := range x.counters {
		if n := number(x.counts, i*x.count+t); n > 0 {
			counts = append(counts, chunk.Count{Counter: string(x.counter(i)), Tokens: n})
		}
	}
	return counts
}

func (x *texts) string(i int) []byte { return x.strings[number(x.offsets, i):number(x.offsets, i+1)] }

func (x *texts) body(t int) []byte { return x.bodies[number(x.starts, t):number(x.starts, t+1)] }

// sketch returns the term sketch of a text, see retrieval.Sketcher.
func (x *texts) sketch(t int) []byte { return sketchAt(x.sketches, t) }

func sketchAt(sketches []byte, t int) []byte {
	return sketches[t*retrieval.SketchBytes : (t+1)*retrieval.SketchBytes]
}

// sum returns the checksum of a text and its sketch.
func (x *texts) sum(t int, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(x.sketch(t), crc32c()), crc32c(), body)
}

// whole reports whether a text and its sketch are undamaged.
func (x *texts) whole(t int) bool { return x.sum(t, x.body(t)) == uint32(number(x.sums, t)) }

// document returns the document of a text. If all documents have one text, the numbers are equal.
func (x *texts) document(t int) int {
	if t < x.documents && x.first(t) == t && x.first(t+1) > t {
		return t
	}
	return sort.Search(x.documents, func(d int) bool { return x.first(d+1) > t })
}

// crc32c returns the polynomial that processors have an instruction for. The library makes the
// table only once.
func crc32c() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// attributes returns the attributes of a document.
func (s *Segment) attributes(d int) (map[string]any, error) {
	attributes, err := chunk.DecodeAttributes(string(s.texts.set(number(s.texts.setOf, d))))
	runtime.KeepAlive(s)
	if err != nil {
		return nil, &DamageError{Segment: s, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	return attributes, nil
}

// Allowed returns the texts of the documents that match a filter, including deleted ones, and
// whether they are all. It decodes no attributes: see values.go.
func (s *Segment) Allowed(f *filter.Filter) (allowed bm25.Bitmap, all bool) {
	defer runtime.KeepAlive(s)
	chosen, n := valueIndex{&s.texts}.chosen(f), 0
	for _, is := range chosen {
		if is {
			n++
		}
	}
	if n == 0 {
		return nil, s.texts.documents == 0
	}
	allowed = make(bm25.Bitmap, (s.texts.count+63)/64)
	for d := range s.texts.documents {
		if chosen[number(s.texts.setOf, d)] {
			allowed.AddRange(s.texts.first(d), s.texts.first(d+1))
		}
	}
	return allowed, n == len(chosen)
}
