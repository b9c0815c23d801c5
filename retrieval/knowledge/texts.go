package knowledge

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

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
func (e extent) damaged(err error) (holder, bool) {
	damage := (*index.DamageError)(nil)
	if !errors.As(err, &damage) {
		return holder{}, false
	}
	i := slices.IndexFunc(e.holders, func(h holder) bool { return h.holds(damage) })
	if i < 0 {
		return holder{}, false
	}
	return e.holders[i], true
}

// Locate returns the texts of hits in the present generation of the base.
func (b *Base) Locate(_ context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	return locate([]holder{{b.id, b.content.Load()}}, q, hits)
}

// Locate is like Base.Locate, for hits in the bases of q together.
func (g *Group) Locate(_ context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	ids := idsOf(q.Bases)
	holders := make([]holder, len(ids))
	for i, id := range ids {
		holders[i] = g.holder(id)
	}
	return locate(holders, q, hits)
}

// locate finds hits in bases whose generations are those of q.
func locate(holders []holder, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
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
