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
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// keptUnions is the number of base combinations that are kept ready for search. Each takes 4 bytes
// per text.
const keptUnions = 16

// A Group searches several embedded bases as one: it answers a query from all bases that the query
// names, with the ranking and scores of a single base that has exactly their documents, and its
// floor, except that a word does not raise it for the texts of bases that do not have the word.
//
// A base that is not indexed yet or is damaged is left out: the result is then partial, and its
// Bases are those that were searched. It is an error if none is left.
//
// After a base has changed, the floor is measured again, in about 4 µs per text. A search that
// would wait for that longer than Wait uses an estimate, and its result is provisional.
//
// The fields must not change after the first use. A Group is safe for concurrent use.
type Group struct {
	// Base returns the base with an id, nil if there is none.
	Base func(id string) *Base
	// Analysed caches the analysis of questions; may be nil.
	Analysed *analysis.Recent
	// Searched, if not nil, is called with the outcome of each base of each search.
	Searched func(id string, reason retrieval.Reason)
	// Start runs f in the background; f returns early when its context ends.
	Start func(f func(ctx context.Context))
	// Wait is the longest time that a search waits for a floor.
	Wait time.Duration
	// Questions embeds questions to bases that have vectors; nil to search by words only.
	Questions Questions
	// VectorsOnly ranks bases that have vectors by cosine alone, without a floor, to measure what
	// vectors contribute. A Group without Questions measures words alone.
	VectorsOnly bool

	recent index.RecentTexts
	rooms  sync.Pool // see extent

	mu   sync.Mutex
	kept map[string]*union // by base ids, comma-separated; at most keptUnions
	uses uint64            // a logical clock for kept

	measuring sync.Mutex // held while a floor is measured, so that only one processor is busy with it
}

// An attempt is the outcome of searching some bases together.
type attempt struct {
	holders []baseSnapshot // those that are indexed
	res     *retrieval.Result
	err     error
	broken  string // the base that caused err; "" if none
}

// Retrieve is like Base.Retrieve, for all bases in q.Bases. It returns hits if q.Hits has capacity.
func (g *Group) Retrieve(ctx context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	var few [fewTerms]bm25.Term
	start, terms := time.Now(), termsOf(&q, g.Analysed, few[:0])
	ids, broken := idsOf(q.Bases), false
	for {
		res = retrieval.Result{Hits: q.Hits[:0]}
		a := g.search(ctx, &q, terms, ids, &res, cap(q.Hits) > 0)
		if a.broken != "" && len(ids) > 1 {
			g.tell(a.broken, retrieval.ReasonError)
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == a.broken })
			broken = true
			continue
		}
		for _, id := range ids {
			g.tell(id, a.reason(id))
		}
		if broken && a.err == nil {
			res.Partial, res.Reason = true, retrieval.ReasonError
		}
		res.Took = time.Since(start)
		return res, a.err
	}
}

// promptTexts is the number of texts up to which a search takes less time (some tens of µs) than a
// cache lookup would.
const promptTexts = 4096

// AnswersAtOnce reports whether a search for q returns at once: the bases have few texts and a measured
// floor, and no vectors that would require embedding the question.
func (g *Group) AnswersAtOnce(q retrieval.Query) bool {
	if len(q.Bases) == 1 { // a single base is not joined
		texts, known := g.textsAtOnce(g.holder(q.Bases[0].Knowledge))
		return known && texts <= promptTexts
	}
	u, holders := g.union(idsOf(q.Bases))
	all := 0
	for _, h := range holders {
		texts, known := g.textsAtOnce(h)
		if all += texts; !known || all > promptTexts {
			return false
		}
	}
	if len(holders) == 0 {
		return false
	}
	if u == nil {
		return true
	}
	select {
	case <-u.measured:
		return true
	default:
		return false
	}
}

// textsAtOnce returns the number of texts of a base; false if it cannot be searched at once.
func (g *Group) textsAtOnce(h baseSnapshot) (n int, ok bool) {
	if h.content == nil || g.Questions != nil && h.content.vectors != nil {
		return 0, false
	}
	return h.content.Chunks(), true
}

// idsOf returns the distinct ids of the bases of a query, sorted.
func idsOf(bases []retrieval.Ref) []string {
	ids := make([]string, len(bases))
	for i, ref := range bases {
		ids[i] = ref.Knowledge
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (g *Group) tell(id string, reason retrieval.Reason) {
	if g.Searched != nil {
		g.Searched(id, reason)
	}
}

// search searches those bases of ids that are indexed and stores the result in res, using the
// memory of res.Hits.
func (g *Group) search(ctx context.Context, q *retrieval.Query, terms []bm25.Term, ids []string, res *retrieval.Result, asHits bool) (a attempt) {
	a.res = res
	defer func() {
		if value := recover(); value != nil {
			*res = retrieval.Result{Reason: retrieval.ReasonError}
			a.err = fmt.Errorf("search knowledge %s: %w: panic: %v", strings.Join(ids, ", "), retrieval.ErrUnavailable, value)
			a.broken = g.breaking(ctx, q, terms, ids)
		}
	}()
	u, holders := g.union(ids)
	if a.holders = holders; len(holders) == 0 {
		*res, a.err = noneIndexed(absent(ids))
		return a
	}
	e, right := alone(holders[0]), true
	if u != nil {
		if e, a.err = u.extent(); a.err == nil && len(terms) > 0 {
			right = u.await(ctx, g.Wait)
			e.floor = u.nearest()
		}
	}
	if e.vectorsOnly, e.recent, e.rooms = g.VectorsOnly, &g.recent, &g.rooms; a.err == nil {
		if a.err = e.find(ctx, q, terms, g.ask(ctx, q, &e), res); !asHits {
			a.err = withSources(res, a.err)
		}
	} else {
		res.Reason, a.err = retrieval.ReasonError, fmt.Errorf("%w: %w", retrieval.ErrUnavailable, a.err)
	}
	if res.Provisional = !right; a.err == nil && len(holders) < len(ids) {
		res.Partial, res.Reason = true, retrieval.ReasonIndexing
	}
	if a.err != nil {
		if h, ok := (extent{holders: holders}).damaged(a.err); ok {
			a.broken = h.id
		}
	}
	return a
}

// breaking returns the first base whose search panics, "" if none does.
func (g *Group) breaking(ctx context.Context, q *retrieval.Query, terms []bm25.Term, ids []string) string {
	if len(ids) == 1 {
		return ids[0]
	}
	for i, id := range ids {
		if g.search(ctx, q, terms, ids[i:i+1], new(retrieval.Result), true).broken != "" {
			return id
		}
	}
	return ""
}

// reason returns the outcome for one base.
func (a *attempt) reason(id string) retrieval.Reason {
	i := slices.IndexFunc(a.holders, func(h baseSnapshot) bool { return h.id == id })
	switch {
	case i < 0, a.err == nil && a.holders[i].content.Partial():
		return retrieval.ReasonIndexing
	case a.err != nil, a.res.Reason == retrieval.ReasonNoQueryTerms:
		return a.res.Reason
	}
	for j := range a.res.Sources {
		if a.res.Sources[j].Knowledge == id {
			return retrieval.ReasonNone
		}
	}
	for j := range a.res.Hits {
		if a.holders[a.res.Hits[j].Base].id == id {
			return retrieval.ReasonNone
		}
	}
	return retrieval.ReasonNoMatch
}

// absent returns refs without a generation, for bases that are not indexed.
func absent(ids []string) []retrieval.Ref {
	list := make([]retrieval.Ref, len(ids))
	for i, id := range ids {
		list[i].Knowledge = id
	}
	return list
}

// A baseSnapshot is a base with its content at one point in time; the content is nil until the base is
// indexed.
type baseSnapshot struct {
	id      string
	content *Content
}

func (h baseSnapshot) ref() retrieval.Ref {
	if h.content == nil {
		return retrieval.Ref{Knowledge: h.id}
	}
	return retrieval.Ref{Knowledge: h.id, Generation: h.content.options.Generation}
}

// holds reports whether the damaged segment belongs to the content.
func (h baseSnapshot) holds(damage *index.DamageError) bool {
	return slices.ContainsFunc(h.content.segments, func(l index.Live) bool { return l.Segment == damage.Segment })
}

// An extent is what a search runs on: the content of one base, or of several as one.
type extent struct {
	content *Content
	floor   floor
	holders []baseSnapshot
	joint   index.Joint // maps a hit to its holder; used if there are several
	recent  *index.RecentTexts
	rooms   *sync.Pool // of *[leastHits]bm25.Hit, buffers for hits; may be nil

	part *part // of bases in an engine elsewhere, see Rank; nil for embedded ones

	vectorsOnly bool // see Group.VectorsOnly
}

// alone returns the extent of one base.
func alone(h baseSnapshot) extent {
	return extent{content: h.content, floor: h.content.floor, holders: []baseSnapshot{h}}
}

// join returns the extent of several bases, without a floor. Damage found by a search is reported
// to the content it belongs to.
func join(holders []baseSnapshot) (extent, error) {
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
func beside(holders []baseSnapshot) extent {
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
func (e extent) of(ref bm25.Ref) baseSnapshot { return e.holders[e.base(ref)] }

// several reports whether the extent has several bases.
func (e extent) several() bool {
	return len(e.holders) > 1 || e.part != nil && len(e.part.bases) > 1
}

// span returns the texts of the document that contains a text.
func (e extent) span(ref bm25.Ref) bm25.Span {
	if e.part != nil {
		return e.part.spans[ref.Segment][ref.Text]
	}
	return e.content.segments.Span(ref)
}

// base returns the number of the base that contains a text.
func (e extent) base(ref bm25.Ref) int {
	if e.part != nil {
		return ref.Segment
	}
	if len(e.holders) <= 1 {
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
func (e *extent) find(ctx context.Context, q *retrieval.Query, terms []bm25.Term, asked *pendingVector, res *retrieval.Result) error {
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
	if res.Partial = slices.ContainsFunc(e.holders, func(h baseSnapshot) bool { return h.content.Partial() }); res.Partial {
		res.Reason = retrieval.ReasonIndexing
	} else if len(res.Hits) == 0 {
		res.Reason = retrieval.ReasonNoMatch
	}
	return nil
}

// search fills res with what is found.
func (e *extent) search(ctx context.Context, q *retrieval.Query, terms []bm25.Term, asked *pendingVector, res *retrieval.Result) error {
	allowed, err := e.content.allowed(ctx, q.Filter)
	if err != nil {
		return err
	}
	if terms, err = e.alternatives(ctx, terms, allowed); err != nil {
		return err
	}
	var few [fewTerms]bm25.Term
	terms = e.content.index.WeighIdentifiers(terms, few[:0])
	room := e.borrowRoom()
	found, degraded, err := e.look(ctx, terms, asked, q.Settings.NumCandidates, allowed, room[:0])
	if err != nil {
		return err
	}
	res.Degraded, res.EmbedFailure, res.Floor = degraded, found.why, found.floor
	res.Hits = e.hitsOf(&found, res.Hits)
	crowd, only := e.newest(res.Hits, q.Settings.NumCandidates, allowed)
	if only != nil {
		newest, _, err := e.look(ctx, terms, asked, leastNewest, only, nil)
		if err != nil {
			return err
		}
		found.include(&newest)
		res.Hits = e.hitsOf(&found, res.Hits)
	}
	if len(crowd) > 0 && e.answers(terms, crowd) {
		res.Floor = min(res.Floor, rest*res.Hits[0].Score)
	}
	if found.arms == nil && len(res.Hits) > 0 {
		res.Least = e.least(res.Hits[0].Score)
	}
	if e.rooms != nil {
		e.rooms.Put(room)
	}
	res.Texts = &hitTexts{extent: *e, encoding: q.Encoding}
	res.Retrieved, res.Unique = len(res.Hits), len(res.Hits)
	return nil
}

// hitsOf returns what was found as marked hits, in the memory of hits.
func (e *extent) hitsOf(f *found, hits []retrieval.Hit) []retrieval.Hit {
	hits = slices.Grow(hits[:0], len(f.hits))[:len(f.hits)]
	for i, h := range f.hits {
		hits[i] = retrieval.Hit{At: place(h.Ref), Base: e.base(h.Ref), Score: h.Score}
		if f.arms != nil {
			by := &f.arms[i]
			hits[i].Arm, hits[i].ByArm = by.arm, retrieval.ArmScores{Words: float32(by.words), Vector: float32(by.cosine)}
		}
	}
	e.content.segments.Mark(hits)
	return hits
}

// least returns the minimum score by words beside the floor, see farBelow.
func (e *extent) least(best float64) float64 {
	if e.content.Chunks() < fewTexts {
		return 0
	}
	return farBelow * best
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
	arms  []hitScores // by hit; nil if only words were searched
	floor float64
	why   retrieval.EmbedReason // why the vector of the question is missing
}

// A hitScores tells how a hit was found.
type hitScores struct {
	arm    retrieval.Arm // "" if only words were searched
	words  float64       // BM25 score; 0 if it was not found by words
	cosine float64       // 0 if it has no vector
	weight float64       // of the cosine
}

// by returns how the i-th hit was found.
func (f *found) by(i int) hitScores {
	if f.arms == nil {
		return hitScores{words: f.hits[i].Score}
	}
	return f.arms[i]
}

// look returns the best k texts by words, and also by vectors if asked is not nil. It returns a
// non-empty stage if that stage failed and was skipped. Hits found by words alone use room if that
// is large enough.
func (e extent) look(ctx context.Context, terms []bm25.Term, asked *pendingVector, k int, allowed []bm25.Bitmap, room []bm25.Hit) (found, retrieval.Stage, error) {
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
	return found{hits: hits, floor: e.floor.of(e, terms, hits)}
}

// refs returns the ids and current generations of bases.
func refs(holders []baseSnapshot) []retrieval.Ref {
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
