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

// A Content is the documents of a base, cut and indexed. It never changes. Segments that
// are mapped files stay mapped for as long as anything holds the Content, such as a search
// that is under way when another takes its place.
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
}

// ContentOptions are the properties of a Content that its segments do not tell.
type ContentOptions struct {
	Generation string
	Part       bool                     // see Content.Part
	Version    string                   // of Deps, by which the tokens in the segments were counted
	Damaged    func(*index.DamageError) // is called when a search meets damage; nil for nobody
	Before     *Content                 // of the same base, from which this one differs little; nil for none
	Saved      []byte                   // without Before: what Content.Calibration returned in another process
	Probes     [][]float32              // the vectors of Probes(), to measure what cosines mean; nil where they are not known
	Trials     [][]float32              // those of Trials(segments), to measure what vectors should weigh; likewise
}

// NewContent indexes what is left in segments.
func NewContent(ctx context.Context, segments index.Segments, o ContentOptions) (*Content, error) {
	c := &Content{segments: segments, index: segments.Index(), options: o, filters: newFilterCache()}
	c.sorted = sync.OnceValue(func() []index.DocumentRef { return slices.Collect(segments.InOrder()) })
	c.summary = sync.OnceValue(segments.Attributes)
	for _, s := range segments {
		c.documents += s.Documents
		c.bytes += s.Bytes
	}
	c.options.Before, c.options.Saved = nil, nil // its files may go
	if err := c.calibrate(ctx, o.Before, o.Saved); err != nil || c.segments.Embeddings().Len() == 0 {
		return c, err
	}
	return c, openVectors(ctx, c)
}

// openVectors makes the index of vectors of c, and measures what cosines mean in it, and weigh. Damage is not
// reported, as nothing is searched in c yet.
func openVectors(ctx context.Context, c *Content) error {
	err := bm25.GuardMapped(func() (err error) {
		if c.vectors, err = c.segments.Embeddings().Index(); err != nil {
			return err
		}
		e := extent{content: c}
		if c.floor.cosines, err = e.measureCosines(ctx, c.options.Probes); err != nil || c.options.Trials == nil {
			return err
		}
		c.weight, c.weighed, err = e.measureWeight(Trials(c.segments), c.options.Trials)
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

// Segments returns what is searched; nobody changes it.
func (c *Content) Segments() index.Segments { return c.segments }

// Documents returns how many documents there are.
func (c *Content) Documents() int { return c.documents }

// Chunks returns how many chunks they were cut into.
func (c *Content) Chunks() int { return c.index.Len() }

// Bytes returns how long their texts are.
func (c *Content) Bytes() int64 { return c.bytes }

// Held returns the i-th document by id, 0 <= i < Documents. The first call sorts
// them.
func (c *Content) Held(i int) (h index.Held) {
	_ = c.Guard(func() error { // damage is reported to ContentOptions.Damaged
		h = c.segments.Held(c.sorted()[i])
		return nil
	})
	return h
}

// Lookup returns the document of an id in c; false if there is none.
func Lookup(c *Content, id string) (h index.Held, ok bool) {
	_ = c.Guard(func() error { // damage is reported to ContentOptions.Damaged
		h, ok = index.Lookup(c.segments, id)
		return nil
	})
	return h, ok
}

// Attributes returns what attributes the documents have, by key: a filter whose key
// is not among them chooses by an attribute that no document has. The first call goes
// through the documents. Nobody changes what it returns.
func (c *Content) Attributes() (list []index.Attribute) {
	_ = c.Guard(func() error { // as above
		list = c.summary()
		return nil
	})
	return list
}

// Generation returns the digest of what the content holds, in lower-case hex: the
// same documents have the same generation on every machine.
func (c *Content) Generation() string { return c.options.Generation }

// Part tells whether the folder of the base was not, or is not yet, read to its end.
func (c *Content) Part() bool { return c.options.Part }

// All returns every chunk, by document id, then by place in the document. Base
// and score are left empty. It ends before a text that is damaged.
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

// source returns a chunk in the words of retrieval.
func (c *Content) source(ref bm25.Ref) (retrieval.Source, error) {
	s, err := c.segments.Source(ref)
	if err != nil {
		c.tell(err)
	}
	return s, err
}
