package knowledge

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"runtime"
	"slices"
	"sort"
	"sync"

	"sidenote/retrieval/knowledge/bm25"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/mapped"
)

// errShelf is in the error of a shelf that is not as it was written.
var errShelf = errors.New("damaged shelf")

// A shelf is a segment of the index and the texts in it, with the documents they
// are of, by id. It never changes and lies in one image, on the heap or in a mapped
// file, so that a query needs neither the store nor, in a large base, texts on the
// heap. What is read of it is copied: nothing that leaves it needs the image.
type shelf struct {
	name    string // of its file; "" if it has none
	texts   texts
	segment *bm25.Segment
	owner   *mapped.File                     // keeps the image where it is a file's
	sets    func() ([]map[string]any, error) // the attributes, decoded once
}

// openShelf opens the image of a shelf, which owner may be the memory of. name is
// for the errors.
func openShelf(name string, image []byte, owner *mapped.File) (*shelf, error) {
	s, err := readShelf(image, owner)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cmp.Or(name, "shelf"), err)
	}
	s.name = name
	return s, nil
}

func readShelf(image []byte, owner *mapped.File) (*shelf, error) {
	textsImage, postings, err := splitShelf(image)
	if err != nil {
		return nil, err
	}
	s := &shelf{owner: owner}
	if s.texts, err = openTexts(textsImage); err != nil {
		return nil, err
	}
	if s.segment, err = bm25.OpenIn(postings, owner); err != nil {
		return nil, err
	}
	if s.segment.Len() != s.texts.count {
		return nil, fmt.Errorf("%w: %d texts, %d of them indexed", errShelf, s.texts.count, s.segment.Len())
	}
	s.sets = sync.OnceValues(s.decodeSets)
	return s, nil
}

// rows returns the rows of the documents in the store, ascending.
func (s *shelf) rows() []int64 {
	rows := make([]int64, s.texts.documents)
	for d := range rows {
		rows[d] = s.texts.row(d)
	}
	slices.Sort(rows)
	runtime.KeepAlive(s)
	return rows
}

// around returns a text of a document that has the texts from first to before end,
// and those beside it, checked. They lie in one piece, and are copied as one: most of
// what a search costs beyond the index is memory.
func (s *shelf) around(t, first, end int) (before, text, after string, err error) {
	from, to := max(first, t-1), min(end, t+2)
	for i := from; i < to; i++ {
		if !s.texts.whole(i) {
			return "", "", "", &shelfError{shelf: s, err: fmt.Errorf("text %d: %w", i, errShelf)}
		}
	}
	start := func(i int) int { return number(s.texts.starts, i) }
	base := start(from)
	all := string(s.texts.bodies[base:start(to)])
	before, text, after = all[:start(t)-base], all[start(t)-base:start(t+1)-base], all[start(t+1)-base:]
	runtime.KeepAlive(s)
	return before, text, after, nil
}

// weight returns how long the texts of a document are.
func (s *shelf) weight(d int) int64 {
	return int64(number(s.texts.starts, s.texts.first(d+1)) - number(s.texts.starts, s.texts.first(d)))
}

// labels returns the id and the name of a document, which are copied as one, too.
func (s *shelf) labels(d int) (id, name string) {
	from, middle := number(s.texts.offsets, 2*d), number(s.texts.offsets, 2*d+1)
	all := string(s.texts.strings[from:number(s.texts.offsets, 2*d+2)])
	runtime.KeepAlive(s)
	return all[:middle-from], all[middle-from:]
}

// texts is the image of documents and their texts; shelf_image.go has its layout.
// The numbers stay where they lie.
type texts struct {
	documents, sections, sets, count, counters int

	rows      []byte // by document
	firsts    []byte // by document: its first text; one more is count
	setOf     []byte // by document: its attributes
	offsets   []byte // of strings: id and name by document, sections, sets of attributes, names of counters; one more is the end
	sectionOf []byte // by text
	starts    []byte // by text, in bodies; one more is the end
	sums      []byte // by text
	counts    []byte // by counter, by text: its tokens, 0 where unknown
	strings   []byte
	bodies    []byte
}

// number returns the i-th of a list of numbers.
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

// tokens returns what a counter counted of a text, 0 if it did not.
func (x *texts) tokens(t int, by string) int {
	for i := range x.counters {
		if string(x.counter(i)) == by {
			return number(x.counts, i*x.count+t)
		}
	}
	return 0
}

// countsOf returns all that was counted of a text.
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

// whole tells whether a text is as it was written.
func (x *texts) whole(t int) bool {
	return crc32.Checksum(x.body(t), crc32c()) == uint32(number(x.sums, t))
}

// document returns the document of a text.
func (x *texts) document(t int) int {
	return sort.Search(x.documents, func(d int) bool { return x.first(d+1) > t })
}

// crc32c is the polynomial that processors have an instruction for. The table is
// made once by the library.
func crc32c() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// A placed is a shelf as one Content sees it.
type placed struct {
	*shelf
	gone bm25.Bitmap // documents that are no longer in the base; nil if all are
	live *bm25.Live
	left int // documents that are in the base

	bytes int64 // of their texts
}

// place returns the shelf without the documents that are gone. before, unless nil,
// is the same shelf in the Content before: if nothing changed, neither is counted
// again.
func (s *shelf) place(gone bm25.Bitmap, before *placed) placed {
	if before != nil && slices.Equal(before.gone, gone) {
		return *before
	}
	p := placed{shelf: s, gone: gone, left: s.texts.documents, bytes: int64(len(s.texts.bodies))}
	var dead bm25.Bitmap
	for d := range s.texts.documents {
		if !gone.Has(d) {
			continue
		}
		p.left--
		p.bytes -= s.weight(d)
		for t := s.texts.first(d); t < s.texts.first(d+1); t++ {
			dead.Add(t)
		}
	}
	p.live = s.segment.Live(dead)
	runtime.KeepAlive(s)
	return p
}

// compare orders the texts of shelves by document id, then by place. Of a document
// that has another version on another shelf only one is alive, but the dead must
// have an order, too.
func compare(shelves []placed) bm25.Compare {
	return func(a, b bm25.Ref) int {
		if a.Segment == b.Segment {
			return cmp.Compare(a.Text, b.Text)
		}
		x, y := &shelves[a.Segment].texts, &shelves[b.Segment].texts
		dx, dy := x.document(a.Text), y.document(b.Text)
		if c := bytes.Compare(x.id(dx), y.id(dy)); c != 0 {
			return c
		}
		if c := cmp.Compare(a.Text-x.first(dx), b.Text-y.first(dy)); c != 0 {
			return c
		}
		return cmp.Compare(a.Segment, b.Segment)
	}
}

// inOrder goes through the documents that are left on shelves, by id.
func inOrder(shelves []placed) iter.Seq[documentRef] {
	return func(yield func(documentRef) bool) {
		next := make([]int, len(shelves)) // document of each shelf
		for {
			best := -1
			for i := range shelves {
				s := &shelves[i]
				for next[i] < s.texts.documents && s.gone.Has(next[i]) {
					next[i]++
				}
				if next[i] < s.texts.documents && (best < 0 || bytes.Compare(s.texts.id(next[i]), shelves[best].texts.id(next[best])) < 0) {
					best = i
				}
			}
			if best < 0 || !yield(documentRef{best, next[best]}) {
				runtime.KeepAlive(shelves)
				return
			}
			next[best]++
		}
	}
}
