package index

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sort"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A Live is a segment without the documents that are no longer in the base.
type Live struct {
	*Segment
	Deleted   bm25.Bitmap    // documents no longer in the base; nil if there are none
	hidden    bm25.Bitmap    // twins, which are not searched; likewise
	same      map[int]string // the ids of the documents that they are twins of
	Postings  *bm25.Live
	Documents int   // number of documents that are searched
	Bytes     int64 // length of their texts

	Vectors *Vectors    // of its texts; may be nil
	Dense   *dense.Live // of its live texts; may be nil
}

// Without returns the segment without the documents in gone. before, unless nil, is an earlier
// result for this segment: it is returned again if gone is the same, so that Postings are counted
// once. Twins may be hidden in it, see WithoutTwins.
func (s *Segment) Without(gone bm25.Bitmap, before *Live) Live {
	if before != nil && slices.Equal(before.Deleted, gone) {
		return *before
	}
	return s.without(gone, nil)
}

func (s *Segment) without(deleted, hidden bm25.Bitmap) Live {
	l := Live{Segment: s, Deleted: deleted, hidden: hidden, Documents: s.texts.documents, Bytes: int64(len(s.texts.bodies))}
	gone := l.gone()
	for d := range s.texts.documents {
		if gone.Has(d) {
			l.Documents--
			l.Bytes -= s.weight(d)
		}
	}
	l.Postings = s.postings.Live(s.deadTexts(gone))
	runtime.KeepAlive(s)
	return l
}

// gone returns the documents that are not searched.
func (l *Live) gone() bm25.Bitmap {
	if l.hidden == nil {
		return l.Deleted
	}
	gone := slices.Grow(slices.Clone(l.Deleted), max(len(l.Deleted), len(l.hidden)))
	gone = append(gone, make(bm25.Bitmap, max(0, len(l.hidden)-len(gone)))...)
	for i, word := range l.hidden {
		gone[i] |= word
	}
	return gone
}

// searched reports whether a document is in the base and not hidden.
func (l *Live) searched(d int) bool { return !l.Deleted.Has(d) && !l.hidden.Has(d) }

// Segments are the segments of a base. A bm25.Ref and a DocumentRef refer to segments by their
// index in this slice.
type Segments []Live

// Take opens the image of a segment on the heap and appends the segment. It can be used as
// Writer.Emit if no files are written.
func (s *Segments) Take(image []byte, _ []int64) error {
	segment, err := Open("", image, nil)
	if err == nil {
		*s = append(*s, segment.Without(nil, nil))
	}
	return err
}

// A DocumentRef identifies a document: the number of its segment, and its number there.
type DocumentRef struct{ segment, document int }

// Index returns the search index.
func (s Segments) Index() *bm25.Index { return bm25.NewIndex(livePostings(s), s.compare) }

func livePostings(s Segments) []*bm25.Live {
	live := make([]*bm25.Live, len(s))
	for i := range s {
		live[i] = s[i].Postings
	}
	return live
}

// compare orders the texts of segments by document id, then by position. If several segments have
// versions of a document, only one is live, but the dead ones must have an order, too.
func (s Segments) compare(a, b bm25.Ref) int {
	if a.Segment == b.Segment {
		return cmp.Compare(a.Text, b.Text)
	}
	x, y := &s[a.Segment].texts, &s[b.Segment].texts
	dx, dy := x.document(a.Text), y.document(b.Text)
	if c := bytes.Compare(x.id(dx), y.id(dy)); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Text-x.first(dx), b.Text-y.first(dy)); c != 0 {
		return c
	}
	return cmp.Compare(a.Segment, b.Segment)
}

// InOrder yields the documents in the base, sorted by id.
func (s Segments) InOrder() iter.Seq[DocumentRef] {
	return func(yield func(DocumentRef) bool) {
		next := make([]int, len(s)) // next document of each segment
		for {
			best := -1
			for i := range s {
				seg := &s[i]
				for next[i] < seg.texts.documents && !seg.searched(next[i]) {
					next[i]++
				}
				if next[i] < seg.texts.documents && (best < 0 || bytes.Compare(seg.texts.id(next[i]), s[best].texts.id(next[best])) < 0) {
					best = i
				}
			}
			if best < 0 || !yield(DocumentRef{best, next[best]}) {
				runtime.KeepAlive(s)
				return
			}
			next[best]++
		}
	}
}

// Texts yields the texts of a document.
func (s Segments) Texts(d DocumentRef) iter.Seq[bm25.Ref] {
	return func(yield func(bm25.Ref) bool) {
		texts := &s[d.segment].texts
		for t := texts.first(d.document); t < texts.first(d.document+1); t++ {
			if !yield(bm25.Ref{Segment: d.segment, Text: t}) {
				return
			}
		}
	}
}

// Source returns a text as a retrieval.Source, without base and score.
func (s Segments) Source(ref bm25.Ref) (retrieval.Source, error) {
	seg := s[ref.Segment].Segment
	texts := &seg.texts
	d := texts.document(ref.Text)
	first, end := texts.first(d), texts.first(d+1)
	out := retrieval.Source{Type: "rag", Chunk: ref.Text - first, Section: string(texts.section(ref.Text))}
	out.Doc, out.Name = seg.labels(d)
	var err error
	out.Before, out.Text, out.After, err = seg.around(ref.Text, first, end)
	out.Sketch = string(texts.sketch(ref.Text))
	runtime.KeepAlive(s)
	return out, err
}

// Around returns a text with the previous and the next one in its document; "" if there is none.
func (s Segments) Around(ref bm25.Ref) (before, text, after string, err error) {
	seg := s[ref.Segment].Segment
	d := seg.texts.document(ref.Text)
	before, text, after, err = seg.around(ref.Text, seg.texts.first(d), seg.texts.first(d+1))
	runtime.KeepAlive(s)
	return before, text, after, err
}

// Tokens returns the token count of a text by a counter, see chunk.CounterName; 0 if unknown.
func (s Segments) Tokens(ref bm25.Ref, counter string) int {
	n := s[ref.Segment].texts.tokens(ref.Text, counter)
	runtime.KeepAlive(s)
	return n
}

// A DocumentInfo is the data of one document in segments.
type DocumentInfo struct {
	ID, Name string
	Chunks   int
	Bytes    int // length of their texts
	// Attributes are strings, float64s, bools and lists of strings; nil if there are none or they
	// are damaged. Documents may share the map: it must not be modified.
	Attributes map[string]any
}

// Document returns the data of a document.
func (s Segments) Document(d DocumentRef) DocumentInfo {
	seg := s[d.segment]
	first, end := seg.texts.first(d.document), seg.texts.first(d.document+1)
	h := DocumentInfo{Chunks: end - first, Bytes: int(seg.weight(d.document))}
	h.ID, h.Name = seg.labels(d.document)
	h.Attributes, _ = seg.attributes(d.document)
	return h
}

// Lookup returns the data of the document with an id; false if it is not in the base.
func Lookup(s Segments, id string) (DocumentInfo, bool) {
	for i := range s {
		if d, ok := s[i].texts.find(id); ok && s[i].searched(d) {
			return s.Document(DocumentRef{i, d}), true
		}
	}
	return DocumentInfo{}, false
}

// Fault returns a DamageError if err is a fault in a mapped segment file, for example because it
// was truncated; otherwise nil.
func (s Segments) Fault(err error) error {
	fault := (*bm25.MappedFaultError)(nil)
	if !errors.As(err, &fault) {
		return nil
	}
	for _, seg := range s {
		if seg.owner != nil && seg.owner.Holds(fault.Address) {
			return &DamageError{Segment: seg.Segment, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
		if v := seg.Vectors; v != nil && v.owner != nil && v.owner.Holds(fault.Address) {
			return &DamageError{Segment: seg.Segment, Vectors: v, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
	}
	return nil
}

// Mark fills in the marks of hits, by their places.
func (s Segments) Mark(hits []retrieval.Hit) {
	for i := range hits {
		h := &hits[i]
		seg, at := s[h.At.Segment].Segment, h.At.Text
		texts := &seg.texts
		d := texts.document(at)
		h.Mark = retrieval.Mark{
			Glance: retrieval.GlanceAt(texts.sketch(at)), Bytes: number(texts.starts, at+1) - number(texts.starts, at),
			Sum: uint32(number(texts.sums, at)), Document: d, Undated: seg.undated.has(d, func() bool { return !retrieval.MaybeEdition(texts.label(at, d)) }),
		}
	}
	runtime.KeepAlive(s)
}

// A knownBits is a property of documents that is found out when it is first needed: two bits of each,
// whether it is known and whether it holds.
type knownBits []atomic.Uint64

func newKnownBits(documents int) knownBits { return make(knownBits, (documents+31)/32) }

// has returns the property of a document, which find finds out.
func (k knownBits) has(d int, find func() bool) bool {
	word, bit := &k[d/32], uint(d%32)*2
	if known := word.Load() >> bit; known&1 != 0 {
		return known&2 != 0
	}
	holds := find()
	if found := uint64(1); holds {
		word.Or((found | 2) << bit)
	} else {
		word.Or(found << bit)
	}
	return holds
}

// Sketch returns the term sketch of a text in s.
func Sketch(s Segments, at bm25.Ref) retrieval.Sketch {
	read, _ := retrieval.ReadSketch(s[at.Segment].texts.sketch(at.Text))
	runtime.KeepAlive(s)
	return read
}

// Label returns the label of a text. Its bytes are those of the image: they are valid as long as
// the caller keeps the Segments alive.
func (s Segments) Label(at bm25.Ref) retrieval.Label {
	texts := &s[at.Segment].texts
	return texts.label(at.Text, texts.document(at.Text))
}

// Labels calls add with the label of each marked hit, in order.
func (s Segments) Labels(hits []*retrieval.Hit, add func(retrieval.Label)) {
	for _, h := range hits {
		add(s[h.At.Segment].texts.label(h.At.Text, h.Document))
	}
	runtime.KeepAlive(s)
}

// label returns the label of text t of a document.
func (x *texts) label(t, document int) retrieval.Label {
	return retrieval.Label{Doc: x.id(document), Chunk: t - x.first(document), Name: x.name(document), Section: x.section(t), Attributes: x.set(number(x.setOf, document))}
}

// Find returns the text with the given document id and chunk; false if it is not in the base. It
// tries hint first, which may be invalid.
func (s Segments) Find(id string, chunk int, hint bm25.Ref) (bm25.Ref, bool) {
	defer runtime.KeepAlive(s)
	if hint.Segment >= 0 && hint.Segment < len(s) {
		if texts := &s[hint.Segment].texts; hint.Text >= 0 && hint.Text < texts.count {
			d := texts.document(hint.Text)
			if string(texts.id(d)) == id && hint.Text-texts.first(d) == chunk && s[hint.Segment].searched(d) {
				return hint, true
			}
		}
	}
	for i := range s {
		texts := &s[i].texts
		d, ok := texts.find(id)
		if ok && s[i].searched(d) && chunk >= 0 && chunk < texts.first(d+1)-texts.first(d) {
			return bm25.Ref{Segment: i, Text: texts.first(d) + chunk}, true
		}
	}
	return bm25.Ref{}, false
}

// find returns the document with an id.
func (x *texts) find(id string) (d int, ok bool) {
	d = sort.Search(x.documents, func(d int) bool { return string(x.id(d)) >= id })
	return d, d < x.documents && string(x.id(d)) == id
}

// An identity identifies a Segment without keeping it, and thus a mapped file, alive.
type identity struct{ _ byte } // not empty, so that each has its own address

// RecentTexts is a cache of texts with their neighbours: new questions mostly find what others
// found. A cached text is not copied from its image again, but still checked there, so that damage
// is noticed. The zero RecentTexts is empty and ready for use.
type RecentTexts struct{ table retrieval.Recent[recentText] }

type recentText struct {
	textKey
	before, text, after string
}

type textKey struct {
	of   *identity
	text int
}

// maxRecentText is the size limit of a cached text with its neighbours. The cache takes at most 8
// MiB, typically about 1.5.
const maxRecentText = 16 << 10

// Around is Segments.Around with a cache; r may be nil.
func (r *RecentTexts) Around(s Segments, ref bm25.Ref) (before, text, after string, err error) {
	if r == nil {
		return s.Around(ref)
	}
	seg := s[ref.Segment].Segment
	key := textKey{seg.identity, ref.Text}
	hash := retrieval.Hash(key)
	if t := r.table.At(hash); t != nil && t.textKey == key {
		from, to := ref.Text, ref.Text+1
		if t.before != "" {
			from--
		}
		if t.after != "" {
			to++
		}
		return t.before, t.text, t.after, seg.check(from, to)
	}
	before, text, after, err = s.Around(ref)
	if err == nil && len(before)+len(text)+len(after) <= maxRecentText {
		r.table.Put(hash, &recentText{key, before, text, after})
	}
	return before, text, after, err
}

// A Joint is the segments of several bases, searched as one base.
type Joint struct {
	Segments
	base []int // number of the base, by segment
}

// Join returns the segments of bases, in their order.
func Join(bases ...Segments) Joint {
	j := Joint{Segments: slices.Concat(bases...)}
	for i, segments := range bases {
		j.base = append(j.base, slices.Repeat([]int{i}, len(segments))...)
	}
	return j
}

// Base returns the number of the base that contains a text.
func (j Joint) Base(ref bm25.Ref) int { return j.base[ref.Segment] }

// Index returns the search index. Its statistics cover all bases; scores are those of a single
// base with all their documents. Equal scores are in the order of the bases, and within a base in
// its own order.
func (j Joint) Index() *bm25.Index { return bm25.NewIndex(livePostings(j.Segments), j.compare) }

func (j Joint) compare(a, b bm25.Ref) int {
	if c := cmp.Compare(j.Base(a), j.Base(b)); c != 0 {
		return c
	}
	return j.Segments.compare(a, b)
}
