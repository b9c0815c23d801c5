package knowledge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// A holder is a base with its content at one point in time; the content is nil until the base is
// indexed.
type holder struct {
	id      string
	content *Content
}

func (h holder) ref() retrieval.Ref {
	if h.content == nil {
		return retrieval.Ref{Knowledge: h.id}
	}
	return retrieval.Ref{Knowledge: h.id, Generation: h.content.options.Generation}
}

// holds reports whether the damaged segment belongs to the content.
func (h holder) holds(damage *index.DamageError) bool {
	return slices.ContainsFunc(h.content.segments, func(l index.Live) bool { return l.Segment == damage.Segment })
}

// An extent is what a search runs on: the content of one base, or of several as one.
type extent struct {
	content *Content
	floor   floor
	holders []holder
	joint   index.Joint // maps a hit to its holder; used if there are several
	recent  *index.RecentTexts
	rooms   *sync.Pool // of *[leastHits]bm25.Hit, buffers for hits; may be nil

	vectorsOnly bool // see Group.VectorsOnly
}

// alone returns the extent of one base.
func alone(h holder) extent {
	return extent{content: h.content, floor: h.content.floor, holders: []holder{h}}
}

// join returns the extent of several bases, without a floor. Damage found by a search is reported
// to the content it belongs to.
func join(holders []holder) (extent, error) {
	e := beside(holders)
	return e, e.content.Guard(func() (err error) {
		e.content.index = e.joint.Index()
		if e.content.segments.Embeddings().Len() > 0 {
			e.content.vectors, err = e.joint.Embeddings().Index()
		}
		return err
	})
}

// beside is join without an index: it can only be used to read texts.
func beside(holders []holder) extent {
	bases := make([]index.Segments, len(holders))
	for i, h := range holders {
		bases[i] = h.content.segments
	}
	joint := index.Join(bases...)
	told := func(damage *index.DamageError) {
		for _, h := range holders {
			if h.holds(damage) {
				h.content.tell(damage)
			}
		}
	}
	c := &Content{segments: joint.Segments, options: ContentOptions{Damaged: told}, filters: newFilterCache()}
	return extent{content: c, holders: holders, joint: joint}
}

// of returns the base that contains a text.
func (e extent) of(ref bm25.Ref) holder { return e.holders[e.base(ref)] }

// base returns the number of the base that contains a text.
func (e extent) base(ref bm25.Ref) int {
	if len(e.holders) == 1 {
		return 0
	}
	return e.joint.Base(ref)
}

// withSources replaces the hits of a result by sources without texts.
func withSources(res *retrieval.Result, err error) error {
	t, ok := res.Texts.(*hitTexts)
	if err != nil || !ok {
		return err
	}
	res.Sources = make([]retrieval.Source, len(res.Hits))
	all := make([]*retrieval.Source, len(res.Hits))
	for i := range res.Hits {
		h := &res.Hits[i]
		res.Sources[i] = retrieval.Source{Type: "rag", Knowledge: res.Bases[h.Base].Knowledge, Score: h.Score, Arm: h.Arm, ByArm: h.ByArm, At: h.At}
		all[i] = &res.Sources[i]
	}
	if err := t.guard(func() error { t.label(all); return nil }); err != nil {
		*res = retrieval.Result{Bases: res.Bases, Reason: retrieval.ReasonError, Cache: res.Cache}
		return err
	}
	for _, src := range all {
		src.Name, src.Section = "", "" // they are read together with the text
	}
	res.Hits = nil
	return nil
}

// find searches for terms and stores hits in res, reusing the memory of res.Hits. asked provides
// the vector of the question; nil to search by words only.
func (e *extent) find(ctx context.Context, q *retrieval.Query, terms []bm25.Term, asked *asked, res *retrieval.Result) error {
	start := time.Now()
	*res = retrieval.Result{Bases: refs(e.holders), Cache: retrieval.CacheOff, Hits: res.Hits[:0]}
	if len(terms) == 0 {
		res.Reason = retrieval.ReasonNoQueryTerms
		return nil
	}
	err := e.content.Guard(func() error { return e.search(ctx, q, terms, asked, res) })
	res.Took = time.Since(start)
	if err != nil {
		res.Reason = retrieval.ReasonError
		if errors.Is(err, context.DeadlineExceeded) {
			res.Reason = retrieval.ReasonTimeout
		}
		return fmt.Errorf("search knowledge %s: %w: %w", named(res.Bases), retrieval.ErrUnavailable, err)
	}
	if res.Partial = slices.ContainsFunc(e.holders, func(h holder) bool { return h.content.Part() }); res.Partial {
		res.Reason = retrieval.ReasonIndexing
	} else if len(res.Hits) == 0 {
		res.Reason = retrieval.ReasonNoMatch
	}
	return nil
}

// search fills res with what is found.
func (e *extent) search(ctx context.Context, q *retrieval.Query, terms []bm25.Term, asked *asked, res *retrieval.Result) error {
	allowed, err := e.content.allowed(ctx, q.Filter)
	if err != nil {
		return err
	}
	var few [fewTerms]bm25.Term
	terms = e.content.index.Settle(terms, few[:0])
	room := e.borrowRoom()
	found, degraded, err := e.look(ctx, terms, asked, q.Settings.NumCandidates, allowed, room[:0])
	if err != nil {
		return err
	}
	res.Degraded, res.EmbedFailure = degraded, found.why
	hits := slices.Grow(res.Hits, len(found.hits))[:len(found.hits)]
	for i, h := range found.hits {
		hits[i] = retrieval.Hit{At: place(h.Ref), Base: e.base(h.Ref), Score: h.Score}
		if found.arms != nil {
			by := &found.arms[i]
			hits[i].Arm, hits[i].ByArm = by.arm, retrieval.ArmScores{Words: float32(by.words), Vector: float32(by.cosine)}
		}
	}
	if e.rooms != nil {
		e.rooms.Put(room)
	}
	e.content.segments.Mark(hits)
	res.Hits, res.Floor = hits, found.floor
	res.Texts = &hitTexts{extent: *e, encoding: q.Encoding}
	res.Retrieved, res.Unique = len(hits), len(hits)
	return nil
}

// borrowRoom returns an unused buffer for hits.
func (e *extent) borrowRoom() *[leastHits]bm25.Hit {
	if e.rooms != nil {
		if room, ok := e.rooms.Get().(*[leastHits]bm25.Hit); ok {
			return room
		}
	}
	return new([leastHits]bm25.Hit)
}

// A found is the result of a search, best hits first, with the least score of an answer.
type found struct {
	hits  []bm25.Hit
	arms  []byArms // by hit; nil if only words were searched
	floor float64
	why   retrieval.EmbedReason // why the vector of the question is missing
}

// A byArms tells how a hit was found.
type byArms struct {
	arm    retrieval.Arm // "" if only words were searched
	words  float64       // BM25 score; 0 if it was not found by words
	cosine float64       // 0 if it has no vector
	weight float64       // of the cosine
}

// by returns how the i-th hit was found.
func (f *found) by(i int) byArms {
	if f.arms == nil {
		return byArms{words: f.hits[i].Score}
	}
	return f.arms[i]
}

// look returns the best k texts by words, and also by vectors if asked is not nil. It returns a
// non-empty stage if that stage failed and was skipped. Hits found by words alone use room if that
// is large enough.
func (e extent) look(ctx context.Context, terms []bm25.Term, asked *asked, k int, allowed []bm25.Bitmap, room []bm25.Hit) (found, retrieval.Stage, error) {
	switch {
	case asked != nil && e.vectorsOnly:
		return e.byVectors(ctx, asked, k, allowed)
	case asked != nil:
		return e.hybrid(ctx, terms, asked, k, allowed)
	}
	hits, err := e.best(ctx, terms, k, allowed, room)
	if err != nil {
		return found{}, "", err
	}
	return e.byWords(terms, hits), "", nil
}

// byWords returns the result of a search by words alone.
func (e extent) byWords(terms []bm25.Term, hits []bm25.Hit) found {
	return found{hits: hits, floor: e.floor.of(e.content.index, terms, hits)}
}

// refs returns the ids and current generations of bases.
func refs(holders []holder) []retrieval.Ref {
	list := make([]retrieval.Ref, len(holders))
	for i, h := range holders {
		list[i] = h.ref()
	}
	return list
}

// named returns the ids of bases as a comma-separated list.
func named(bases []retrieval.Ref) string {
	ids := make([]string, len(bases))
	for i, ref := range bases {
		ids[i] = ref.Knowledge
	}
	return strings.Join(ids, ", ")
}
