package knowledge

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/bm25"
)

// A Content is the documents of a base, cut and indexed, on shelves. It never
// changes. Shelves that are mapped files stay mapped for as long as anything holds
// the Content, such as a search that is under way when another takes its place.
type Content struct {
	shelves    []placed // as numbered in index
	index      *bm25.Index
	documents  int
	bytes      int64
	generation string
	part       bool   // see Part
	version    string // of what counted the tokens on the shelves
	floor      floor
	damaged    func(*shelfError)    // is told what a search met; nil if nobody cares
	sorted     func() []documentRef // the documents by id; sorts them once
	summary    func() []Attribute   // likewise
	filters    filterCache
}

// newContent indexes what is left on shelves.
func newContent(ctx context.Context, shelves []placed, generation string) (*Content, error) {
	c := &Content{shelves: shelves, generation: generation}
	c.sorted = sync.OnceValue(func() []documentRef { return slices.Collect(inOrder(shelves)) })
	c.summary = sync.OnceValue(func() []Attribute { return summarise(shelves) })
	live := make([]*bm25.Live, len(shelves))
	for i, s := range shelves {
		live[i] = s.live
		c.documents += s.left
		c.bytes += s.bytes
	}
	c.index = bm25.NewIndex(live, compare(shelves))
	var err error
	c.floor, err = calibrate(ctx, c.index)
	return c, err
}

// Documents returns how many documents there are.
func (c *Content) Documents() int { return c.documents }

// Chunks returns how many chunks they were cut into.
func (c *Content) Chunks() int { return c.index.Len() }

// Bytes returns how long their texts are.
func (c *Content) Bytes() int64 { return c.bytes }

// A Held is what a Content holds of one document.
type Held struct {
	ID, Name string
	Chunks   int
	Bytes    int // of their texts
	// Attributes are strings, float64s, bools and lists of strings, nil if there are
	// none or where they are damaged. Documents may share them: nobody changes them.
	Attributes map[string]any
}

// Held returns the i-th document by id, 0 <= i < Documents. The first call sorts
// them.
func (c *Content) Held(i int) (h Held) {
	_ = c.guard(func() error { // what is damaged is told, and made again
		h = c.held(i)
		return nil
	})
	return h
}

func (c *Content) held(i int) Held {
	d := c.sorted()[i]
	s := c.shelves[d.shelf]
	first, end := s.texts.first(d.document), s.texts.first(d.document+1)
	h := Held{Chunks: end - first, Bytes: int(s.weight(d.document))}
	h.ID, h.Name = s.labels(d.document)
	h.Attributes, _ = s.attributes(d.document)
	return h
}

// Generation returns the digest of what the content holds, in lower-case hex: the
// same documents have the same generation on every machine.
func (c *Content) Generation() string { return c.generation }

// Part tells whether this is what was read of a folder that was not, or is not yet,
// read to its end.
func (c *Content) Part() bool { return c.part }

// All returns every chunk, by document id, then by place in the document. Base
// and score are left empty. It ends before a text that is damaged.
func (c *Content) All() iter.Seq[retrieval.Source] {
	return func(yield func(retrieval.Source) bool) {
		for d := range inOrder(c.shelves) {
			texts := &c.shelves[d.shelf].texts
			for t := texts.first(d.document); t < texts.first(d.document+1); t++ {
				source, err := c.source(bm25.Ref{Segment: d.shelf, Text: t})
				if err != nil || !yield(source) {
					return
				}
			}
		}
	}
}

// source returns a chunk in the words of retrieval.
func (c *Content) source(ref bm25.Ref) (retrieval.Source, error) {
	shelf := c.shelves[ref.Segment].shelf
	texts := &shelf.texts
	d := texts.document(ref.Text)
	first, end := texts.first(d), texts.first(d+1)
	s := retrieval.Source{Type: "rag", Chunk: ref.Text - first, Section: string(texts.section(ref.Text))}
	s.Doc, s.Name = shelf.labels(d)
	var err error
	s.Before, s.Text, s.After, err = shelf.around(ref.Text, first, end)
	runtime.KeepAlive(c)
	c.tell(err)
	return s, err
}

// tokens returns what a counter counted of a chunk, 0 if it did not.
func (c *Content) tokens(ref bm25.Ref, by string) int {
	n := c.shelves[ref.Segment].texts.tokens(ref.Text, by)
	runtime.KeepAlive(c)
	return n
}
