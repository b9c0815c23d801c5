package knowledge

import (
	"context"
	"iter"
	"slices"
	"sync"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A Content is the indexed documents of a base. It is immutable. Memory-mapped segments stay
// mapped as long as the Content is referenced, for example by a search in progress while a new
// Content replaces it.
type Content struct {
	segments  index.Segments
	index     *bm25.Index
	vectors   *dense.Index // nil where no text has a vector
	options   ContentOptions
	documents int
	bytes     int64
	floor     floor
	weight    float64 // of vectors, see DenseWeight
	weighed   bool
	measured  *calibration               // of the floor
	sorted    func() []index.DocumentRef // the documents by id; sorts them once
	summary   func() []index.Attribute   // likewise
	filters   filterCache
	timeline  timeline

	grammarOnce sync.Once
	grammar     *grammar // see compounding
}

// ContentOptions are the properties of a Content that its segments do not store.
type ContentOptions struct {
	Generation string
	Partial    bool                     // see Content.Partial
	Version    string                   // Deps.Version with which the tokens in the segments were counted
	Damaged    func(*index.DamageError) // called when a search finds damage; may be nil
	Before     *Content                 // the previous, similar content of the same base; may be nil
	Saved      []byte                   // if Before is nil: what Content.Calibration returned in another process
	Probes     [][]float32              // the vectors of Probes(), to calibrate cosines; nil if unknown
	Trials     [][]float32              // the vectors of TrialTexts(segments), to measure the weight of vectors; nil if unknown
}

// NewContent makes a Content of the live documents in segments.
func NewContent(ctx context.Context, segments index.Segments, o ContentOptions) (*Content, error) {
	c := &Content{segments: segments, index: segments.Index(), options: o, filters: newFilterCache()}
	c.sorted = sync.OnceValue(func() []index.DocumentRef { return slices.Collect(segments.InOrder()) })
	c.summary = sync.OnceValue(segments.Attributes)
	for _, s := range segments {
		c.documents += s.Documents
		c.bytes += s.Bytes
	}
	c.options.Before, c.options.Saved = nil, nil // let go of their files
	if err := c.calibrate(ctx, o.Before, o.Saved); err != nil || c.segments.Embeddings().Len() == 0 {
		return c, err
	}
	return c, openVectors(ctx, c)
}

// openVectors opens the vector index of c and measures its cosine floor and weight. It does not
// report damage, because c is not searched yet.
func openVectors(ctx context.Context, c *Content) error {
	err := bm25.GuardMapped(func() (err error) {
		if c.vectors, err = c.segments.Embeddings().Index(); err != nil {
			return err
		}
		e := extent{content: c}
		if c.floor.cosines, err = e.measureCosines(ctx, c.options.Probes); err != nil || c.options.Trials == nil {
			return err
		}
		c.weight, c.weighed, err = measureWeight(ctx, Trials(c.segments), c.options.Trials)
		return err
	})
	if damage := c.segments.Embeddings().Damage(err); damage != nil {
		return damage
	}
	if damage := c.segments.Fault(err); damage != nil {
		return damage
	}
	return err
}

// Segments returns the segments of the content, which must not be modified.
func (c *Content) Segments() index.Segments { return c.segments }

// Documents returns the number of documents.
func (c *Content) Documents() int { return c.documents }

// Chunks returns the number of chunks.
func (c *Content) Chunks() int { return c.index.Len() }

// Bytes returns the total length of the texts.
func (c *Content) Bytes() int64 { return c.bytes }

// DocumentAt returns the i-th document in order of id, 0 <= i < Documents. The first call sorts the
// documents.
func (c *Content) DocumentAt(i int) (h index.DocumentInfo) {
	_ = c.Guard(func() error { // damage is reported to ContentOptions.Damaged
		h = c.segments.Document(c.sorted()[i])
		return nil
	})
	return h
}

// Lookup returns the document with the given id; false if there is none.
func Lookup(c *Content, id string) (h index.DocumentInfo, ok bool) {
	_ = c.Guard(func() error { // damage is reported to ContentOptions.Damaged
		h, ok = index.Lookup(c.segments, id)
		return nil
	})
	return h, ok
}

// Attributes returns the attributes that the documents have, by key. A filter on a key that is not
// listed matches no document. The first call reads all documents. The result must not be modified.
func (c *Content) Attributes() (list []index.Attribute) {
	_ = c.Guard(func() error { // as above
		list = c.summary()
		return nil
	})
	return list
}

// Generation returns the digest of the content in lower-case hex. The same documents have the same
// generation on every machine.
func (c *Content) Generation() string { return c.options.Generation }

// Partial reports whether the folder of the base was not (or is not yet) read completely.
func (c *Content) Partial() bool { return c.options.Partial }

// All returns every chunk, in order of document id and position in the document. Knowledge and
// Score are left empty. It stops at the first damaged text.
func (c *Content) All() iter.Seq[retrieval.Source] {
	return func(yield func(retrieval.Source) bool) {
		for d := range c.segments.InOrder() {
			for ref := range c.segments.Texts(d) {
				source, err := c.source(ref)
				if err != nil || !yield(source) {
					return
				}
			}
		}
	}
}

// source returns a chunk as a retrieval.Source.
func (c *Content) source(ref bm25.Ref) (retrieval.Source, error) {
	s, err := c.segments.Source(ref)
	if err != nil {
		c.tell(err)
	}
	return s, err
}
