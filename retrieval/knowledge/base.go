// Package knowledge is the embedded engine: a Base answers questions from the documents of
// one knowledge base. It needs no server and no key.
//
// Load reads a folder of documents in many formats (packages folder and extract), cuts each
// document along its own structure (chunk) and indexes the chunks (index). That makes a
// Content, which never changes; a Base swaps the Content it answers from as a whole, so a
// search never sees half of an index. Package library keeps bases on disk (store) and reads
// only what changed.
package knowledge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// maxRepeats is how often a repeated term of a question counts at most. A repetition or two is
// emphasis; in a long pasted text it means nothing.
const maxRepeats = 2

// A Base is one knowledge base. It exists before it is indexed: until the first Swap its
// generation is "" and it answers with retrieval.ReasonIndexing.
type Base struct {
	id      string
	content atomic.Pointer[Content]
}

// New returns a base that is not indexed yet.
func New(id string) *Base { return &Base{id: id} }

// Swap makes c the content that later searches use; nil marks the base as not indexed. Searches in
// progress finish on the content they started with.
func (b *Base) Swap(c *Content) { b.content.Store(c) }

// Content returns the current content; nil before the first Swap.
func (b *Base) Content() *Content { return b.content.Load() }

// ID returns the base's id.
func (b *Base) ID() string { return b.id }

// Ref returns the base's id and generation.
func (b *Base) Ref() retrieval.Ref { return b.ref(b.content.Load()) }

func (b *Base) ref(c *Content) retrieval.Ref { return baseSnapshot{b.id, c}.ref() }

// Retrieve returns the best q.Settings.NumCandidates chunks for q.Text, best first, and the floor
// below which they are noise. It applies no threshold.
//
// With q.Filter it returns the best of the chunks that pass. The others are never returned and
// affect no score. The floor uses the noise of the whole base but is computed from the best hits
// that pass; otherwise it would reveal something about the others.
//
// If the folder of the base was not read completely, the result is partial, with ReasonIndexing.
//
// It searches by words only; a Group also searches vectors.
func (b *Base) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	h := baseSnapshot{b.id, b.content.Load()}
	if h.content == nil {
		return noneIndexed([]retrieval.Ref{h.ref()})
	}
	e := alone(h)
	var res retrieval.Result
	err := withSources(&res, e.find(ctx, &q, termsOf(&q, nil, nil), nil, &res))
	return res, err
}

// noneIndexed returns the result for bases none of which is indexed yet.
func noneIndexed(bases []retrieval.Ref) (retrieval.Result, error) {
	return retrieval.Result{Bases: bases, Reason: retrieval.ReasonIndexing, Cache: retrieval.CacheOff},
		fmt.Errorf("search knowledge %s: indexing: %w", named(bases), retrieval.ErrUnavailable)
}

// fewTerms is the number of terms that fit into stack buffers; most questions have fewer.
const fewTerms = 16

// termsOf returns the terms to search for, sorted by text: those of the question, and those of
// previous turns at their weights. It uses room if that is large enough.
func termsOf(q *retrieval.Query, analysed *analysis.Recent, room []bm25.Term) []bm25.Term {
	var found [fewTerms]analysis.Term
	terms := room[:0]
	var also []bm25.Term
	add := func(text string, weight float64) {
		from := len(terms)
		for _, t := range analysed.Question(found[:0], text) {
			terms = append(terms, bm25.Term{Text: t.Text, Weight: weight, Whole: t.Whole, Word: t.Word})
		}
		if q.Settings.Synonyms != nil {
			also = appendSynonyms(also, terms[from:], q.Settings.Synonyms, weight)
		}
	}
	add(q.Text, 1)
	for _, turn := range q.Previous {
		if turn.Weight > 0 {
			add(turn.Text, turn.Weight)
		}
	}
	slices.SortStableFunc(terms, bm25.ByText)
	kept := terms[:0]
	for _, t := range terms {
		if n := len(kept); n < maxRepeats || kept[n-maxRepeats].Text != t.Text {
			kept = append(kept, t)
		}
	}
	if len(also) > 0 {
		kept = append(kept, also...)
		slices.SortStableFunc(kept, bm25.ByText)
	}
	return kept
}

// Deps are the dependencies of reading documents.
type Deps struct {
	// Counter measures chunks. It must be safe for concurrent use.
	Counter retrieval.Counter
	// Encodings count the tokens of chunks for a library, by name; they must be safe for
	// concurrent use. Sources have the count in the query's encoding.
	Encodings map[string]retrieval.Counter
	// Neutralise changes everything in a document that looks like one of Sidenote's own tags, so
	// that it is not taken for one; knowledge is the base that the document belongs to. It must be
	// safe for concurrent use; nil leaves texts unchanged.
	Neutralise func(knowledge, text string) string
	// Version identifies the behaviour of all of the above and is part of the generation: replicas
	// that read or count differently, such as two releases, must not share results or counts.
	Version string
	// PDF reads PDF files; if nil, they are skipped as unsupported.
	PDF *pdf.Reader
	// Workers is how many documents a library cuts at the same time; 0 means one for each processor.
	Workers int
	// Memory limits the memory in which a library reads documents; nil means no limit.
	Memory *folder.MemoryLimit
	// ChildReader extracts large files for a library in a child process, if Memory is limited.
	ChildReader *folder.ChildReader
	// Progress, if not nil, is called from time to time with the progress of reading, never
	// concurrently.
	Progress func(folder.Progress)
}

// Parallel returns how many documents a library cuts at the same time.
func (d Deps) Parallel() int { return cmp.Or(d.Workers, runtime.GOMAXPROCS(0)) }

// hitTexts reads the texts of hits, in the contents that were searched.
type hitTexts struct {
	extent
	encoding string // encoding that tokens are counted in
}

// place returns the place of a text; refOf is its inverse.
func place(ref bm25.Ref) retrieval.Place {
	return retrieval.Place{Kept: true, Segment: ref.Segment, Text: ref.Text}
}

func refOf(at retrieval.Place) bm25.Ref { return bm25.Ref{Segment: at.Segment, Text: at.Text} }

// Mark fills in the marks of hits.
func (t *hitTexts) Mark(hits []retrieval.Hit) error {
	return t.guard(func() error {
		t.content.segments.Mark(hits)
		return nil
	})
}

// Sketch returns the sketch of a hit's text.
func (t *hitTexts) Sketch(of *retrieval.Hit) (read retrieval.Sketch, err error) {
	return read, t.guard(func() error {
		read = index.Sketch(t.content.segments, refOf(of.At))
		return nil
	})
}

// Label reads the labels of hits.
func (t *hitTexts) Label(hits []*retrieval.Hit, add func(retrieval.Label)) error {
	return t.guard(func() error {
		t.content.segments.Labels(hits, add)
		return nil
	})
}

// Read reads the texts of sources, with their labels.
func (t *hitTexts) Read(sources []*retrieval.Source) error {
	return t.guard(func() error {
		version, by := "", "" // version of the counter, and its name, which is expensive to make
		for _, to := range sources {
			if v := t.of(refOf(to.At)).content.options.Version; by == "" || v != version {
				version, by = v, chunk.CounterName(v, t.encoding)
			}
			if err := t.read(to, by); err != nil {
				return err
			}
		}
		t.label(sources)
		return nil
	})
}

// label sets the document, name and section of sources. All strings share one allocation: memory
// is most of what a search costs beyond the index.
func (t *hitTexts) label(sources []*retrieval.Source) {
	var room [2 << 10]byte
	var lengths [64]int
	copied, ends := room[:0], lengths[:0]
	for _, src := range sources {
		label := t.content.segments.Label(refOf(src.At))
		src.Chunk = label.Chunk
		for _, text := range [...][]byte{label.Doc, label.Name, label.Section} {
			copied = append(copied, text...)
			ends = append(ends, len(copied))
		}
	}
	runtime.KeepAlive(t.content)
	all, from := string(copied), 0
	next := func() string {
		text := all[from:ends[0]]
		from, ends = ends[0], ends[1:]
		return text
	}
	for _, src := range sources {
		src.Doc, src.Name, src.Section = next(), next(), next()
	}
}

// read reads the text of a source and of its neighbours.
func (t *hitTexts) read(to *retrieval.Source, counter string) (err error) {
	ref := refOf(to.At)
	if to.Before, to.Text, to.After, err = t.recent.Around(t.content.segments, ref); err != nil {
		t.content.tell(err)
		return err
	}
	to.Tokens = t.content.segments.Tokens(ref, counter)
	return nil
}

// guard calls f, which reads texts. Its error names the base that is damaged, if any.
func (t *hitTexts) guard(f func() error) error {
	err := t.content.Guard(f)
	if err == nil {
		return nil
	}
	if h, ok := t.damaged(err); ok {
		return &retrieval.UnreadableError{Knowledge: h.id, Err: err}
	}
	return fmt.Errorf("read texts of knowledge %s: %w: %w", named(refs(t.holders)), retrieval.ErrUnavailable, err)
}

// damaged returns the base that a DamageError is about.
func (e extent) damaged(err error) (baseSnapshot, bool) {
	damage := (*index.DamageError)(nil)
	if !errors.As(err, &damage) {
		return baseSnapshot{}, false
	}
	i := slices.IndexFunc(e.holders, func(h baseSnapshot) bool { return h.holds(damage) })
	if i < 0 {
		return baseSnapshot{}, false
	}
	return e.holders[i], true
}

// Locate returns the texts of hits in the present generation of the base.
func (b *Base) Locate(_ context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	return locate([]baseSnapshot{{b.id, b.content.Load()}}, q, hits)
}

// Locate is like Base.Locate, for hits in the bases of q together.
func (g *Group) Locate(_ context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	ids := idsOf(q.Bases)
	holders := make([]baseSnapshot, len(ids))
	for i, id := range ids {
		holders[i] = g.holder(id)
	}
	return locate(holders, q, hits)
}

// locate finds hits in bases whose generations are those of q.
func locate(holders []baseSnapshot, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	for _, h := range holders {
		if h.content == nil || !slices.Contains(q.Bases, h.ref()) {
			return nil, fmt.Errorf("knowledge %s: %w", h.id, retrieval.ErrGone)
		}
	}
	t := &hitTexts{extent: alone(holders[0]), encoding: q.Encoding}
	if len(holders) > 1 {
		t.extent = beside(holders)
	}
	return t, t.guard(func() error {
		for _, hit := range hits {
			ref, ok := t.find(hit)
			if !ok {
				return fmt.Errorf("%s/%s#%d: %w", hit.Knowledge, hit.Doc, hit.Chunk, retrieval.ErrNoHit)
			}
			hit.At = place(ref)
		}
		return nil
	})
}

// find returns the index reference of a hit.
func (t *hitTexts) find(hit *retrieval.Source) (bm25.Ref, bool) {
	first := 0 // number of the base's first segment in the extent
	for _, h := range t.holders {
		if h.id != hit.Knowledge {
			first += len(h.content.segments)
			continue
		}
		hint := refOf(hit.At)
		hint.Segment -= first
		ref, ok := h.content.segments.Find(hit.Doc, hit.Chunk, hint)
		ref.Segment += first
		return ref, ok
	}
	return bm25.Ref{}, false
}

// Passage returns further chunks of a document. It implements retrieval.Reader.
func (g *Group) Passage(ctx context.Context, q retrieval.Query, p retrieval.Passage) (list []retrieval.Source, err error) {
	missing := fmt.Errorf("%s/%s#%d: %w", p.Knowledge, p.Doc, p.First, retrieval.ErrNoHit)
	if !slices.Contains(idsOf(q.Bases), p.Knowledge) {
		return nil, missing
	}
	h := g.holder(p.Knowledge)
	if h.content == nil {
		return nil, missing
	}
	t := &hitTexts{extent: alone(h), encoding: q.Encoding}
	err = t.guard(func() error {
		ref, ok := h.content.segments.Find(p.Doc, p.First, bm25.Ref{Segment: -1})
		if !ok {
			return missing
		}
		allowed, err := h.content.allowed(ctx, q.Filter)
		if err != nil {
			return err
		}
		if allowed != nil && !allowed[ref.Segment].Has(ref.Text) {
			return missing
		}
		span := h.content.segments.Span(ref)
		for end := min(span.End, span.First+p.End); ref.Text < end; ref.Text++ {
			list = append(list, retrieval.Source{Type: "rag", Knowledge: p.Knowledge, Doc: p.Doc, Chunk: ref.Text - span.First, At: place(ref)})
		}
		return nil
	})
	if errors.Is(err, retrieval.ErrNoHit) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	all := make([]*retrieval.Source, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	if err := t.Read(all); err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Before, list[i].After, list[i].At = "", "", retrieval.Place{}
	}
	return list, nil
}

// keptFilters is the number of filters whose matching texts a Content caches; policies reuse a few
// filters. Each takes one bit per text.
const keptFilters = 16

// allowed returns, per segment, the texts of the documents that match a filter, for
// bm25.Index.Search; nil allows all.
func (c *Content) allowed(ctx context.Context, f *filter.Filter) ([]bm25.Bitmap, error) {
	if f == nil {
		return nil, nil
	}
	key := sha256.Sum256([]byte(f.String())) // long filters are kept only as a digest
	if allowed, ok := c.filters.find(key); ok {
		return allowed, nil
	}
	allowed, every := make([]bm25.Bitmap, len(c.segments)), true
	for i, s := range c.segments {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var all bool
		allowed[i], all = s.Allowed(f)
		every = every && all
	}
	if every {
		allowed = nil
	}
	c.filters.keep(key, allowed)
	return allowed, nil
}

// tell reports err to ContentOptions.Damaged if it is a DamageError.
func (c *Content) tell(err error) {
	if damage := (*index.DamageError)(nil); errors.As(err, &damage) && c.options.Damaged != nil {
		c.options.Damaged(damage)
	}
}

// A filterCache maps filters to the texts they allow.
type filterCache struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte][]bm25.Bitmap // at most keptFilters
}

func newFilterCache() filterCache {
	return filterCache{kept: map[[sha256.Size]byte][]bm25.Bitmap{}}
}

func (fc *filterCache) find(key [sha256.Size]byte) (allowed []bm25.Bitmap, ok bool) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	allowed, ok = fc.kept[key]
	return allowed, ok
}

func (fc *filterCache) keep(key [sha256.Size]byte, allowed []bm25.Bitmap) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	fc.kept[key] = allowed
	for other := range fc.kept { // evict an arbitrary other entry
		if len(fc.kept) > keptFilters && other != key {
			delete(fc.kept, other)
		}
	}
}

const (
	// wholeWeight is the weight of the amount by which a document as a whole scores above its best
	// chunk, and furtherChunk the factor for the scores of further chunks of a document. With
	// wholeWeight from 0.5 to 0.8, two sets of questions to six manuals get the right document
	// more often at rank 1 and among the first six; questions to collections of short documents do
	// equally well.
	wholeWeight  = 0.6
	furtherChunk = 0.8
	// leastHits is the least number of hits that are scored like this, so that the order of the
	// first hits does not depend on how many are requested.
	leastHits = 50
)

// best returns at most k hits, best first, in room if that is large enough.
func (e extent) best(ctx context.Context, terms []bm25.Term, k int, allowed []bm25.Bitmap, room []bm25.Hit) ([]bm25.Hit, error) {
	hits, err := e.content.index.Search(ctx, terms, max(k, leastHits), allowed, room)
	if err != nil {
		return nil, err
	}
	e.weighWholes(terms, hits)
	return hits[:min(len(hits), k)], nil
}

// weighWholes raises the best hit of each document that scores higher as a whole, lowers its
// further hits, and sorts hits again. Of two chunks that answer about equally well, the one whose
// document is about the question comes first (J. P. Callan, Passage-level evidence in document
// retrieval, 1994), and each document counts once. Scores depend only on the documents of the
// hits, so no filter changes one. Documents of one chunk are unchanged.
func (e extent) weighWholes(terms []bm25.Term, hits []bm25.Hit) {
	var spans []bm25.Span
	var best []int // by span: its first hit
	for i := range hits {
		s := e.span(hits[i].Ref)
		switch {
		case s.Len() == 1:
		case slices.Contains(spans, s):
			hits[i].Score *= furtherChunk
		default:
			spans, best = append(spans, s), append(best, i)
		}
	}
	if len(spans) == 0 {
		return
	}
	for i, score := range e.content.index.Spans(terms, spans) {
		h := &hits[best[i]]
		h.Score += wholeWeight * max(0, score-h.Score)
	}
	slices.SortStableFunc(hits, func(a, b bm25.Hit) int { return cmp.Compare(b.Score, a.Score) })
}
