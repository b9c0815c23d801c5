package index

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// Vectors are the vectors of the texts of a segment. They have their own image, because they are
// made later and their number grows.
type Vectors struct {
	Name    string // of the file; "" if it has none
	space   string
	segment *dense.Segment
	owner   *bm25.MappedFile // keeps the image alive if it is a mapped file
}

// Space returns the name of the vector space.
func (v *Vectors) Space() string { return v.space }

// OpenVectors opens the image of vectors of a space. owner, unless nil, is the file that contains
// it. name is used in errors.
func OpenVectors(name string, image []byte, space string, owner *bm25.MappedFile) (*Vectors, error) {
	v := &Vectors{Name: name, space: space, owner: owner}
	var holds any
	if owner != nil {
		holds = owner
	}
	var err error
	if v.segment, err = dense.Open(image, space, holds); err != nil {
		return nil, fmt.Errorf("open %s: %w", cmp.Or(name, "vectors"), err)
	}
	return v, nil
}

// Len returns the number of texts that have a vector.
func (v *Vectors) Len() int { return v.segment.Len() }

// MakeVectors returns an image of vectors of the segment's texts. kept maps texts to vectors, as
// dense.Quantize returns them.
func (s *Segment) MakeVectors(space string, kept map[int][]byte) ([]byte, error) {
	for _, v := range kept {
		return dense.Build(space, s.texts.count, dense.Dimensions(v), func(text int) []byte { return kept[text] })
	}
	return nil, errors.New("no vectors")
}

// KeptVectors adds the segment's vectors to kept, by text.
func (l Live) KeptVectors(kept map[int][]byte) error {
	if l.Vectors == nil {
		return nil
	}
	for text := range l.texts.count {
		if !l.Dense.Has(text) {
			continue
		}
		v, err := l.Vectors.segment.Kept(text)
		if err != nil {
			return &DamageError{Segment: l.Segment, Vectors: l.Vectors, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
		kept[text] = v
	}
	return nil
}

// WithVectors returns the segment with vectors of its texts; v may be nil.
func (l Live) WithVectors(v *Vectors) (Live, error) {
	if v == l.Vectors {
		return l, nil
	}
	l.Vectors, l.Dense = v, nil
	if v == nil {
		return l, nil
	}
	if v.segment.Texts() != l.texts.count {
		return l, fmt.Errorf("open %s: %w: of %d texts, not %d", v.Name, dense.ErrDamaged, v.segment.Texts(), l.texts.count)
	}
	l.Dense = v.segment.Live(l.deadTexts(l.gone()))
	return l, nil
}

// deadTexts returns the texts of documents that are gone.
func (s *Segment) deadTexts(gone bm25.Bitmap) (dead bm25.Bitmap) {
	for d := range s.texts.documents {
		if gone.Has(d) {
			dead.AddRange(s.texts.first(d), s.texts.first(d+1))
		}
	}
	runtime.KeepAlive(s)
	return dead
}

// A VectorSet is the vectors of the texts in segments.
type VectorSet struct {
	segments Segments
	compare  bm25.Compare
}

// Embeddings returns the vectors of the texts in the base.
func (s Segments) Embeddings() VectorSet { return VectorSet{s, s.compare} }

// Embeddings returns the vectors of the texts in all bases.
func (j Joint) Embeddings() VectorSet { return VectorSet{j.Segments, j.compare} }

// Len returns the number of texts that have a vector.
func (v VectorSet) Len() (n int) {
	for i := range v.segments {
		n += v.segments[i].Dense.Len()
	}
	return n
}

// Has reports whether a text has a vector.
func (v VectorSet) Has(ref bm25.Ref) bool { return v.segments[ref.Segment].Dense.Has(ref.Text) }

// Index returns the search index; equal cosines are in the order of the texts. It fails if vectors
// have different dimensions.
func (v VectorSet) Index() (*dense.Index, error) {
	live := make([]*dense.Live, len(v.segments))
	for i := range v.segments {
		live[i] = v.segments[i].Dense
	}
	return dense.NewIndex(live, func(a, b dense.Ref) int { return v.compare(bm25.Ref(a), bm25.Ref(b)) })
}

// Damage returns a DamageError if an error of the index indicates damage; otherwise nil.
func (v VectorSet) Damage(err error) *DamageError {
	s := v.segments
	of := (*dense.SegmentError)(nil)
	if !errors.As(err, &of) || !errors.Is(err, dense.ErrDamaged) {
		return nil
	}
	return &DamageError{Segment: s[of.Segment].Segment, Vectors: s[of.Segment].Vectors, err: fmt.Errorf("%w: %w", ErrDamaged, of.Err)}
}
