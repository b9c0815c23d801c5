package knowledge

import (
	"context"
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
// names, with the ranking, scores and floor of a single base that has exactly their documents.
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
	holders []holder // those that are indexed
	res     *retrieval.Result
	err     error
	broken  string // the base that caused err; "" if none
}

// Retrieve is like Base.Retrieve, for all bases in q.Bases.
func (g *Group) Retrieve(ctx context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	err = g.Find(ctx, &q, &res)
	return res, err
}

// Find is like Retrieve, but stores the result in res: as hits if res.Hits has capacity.
func (g *Group) Find(ctx context.Context, q *retrieval.Query, res *retrieval.Result) error {
	asHits := cap(res.Hits) > 0
	var few [fewTerms]bm25.Term
	start, terms := time.Now(), termsOf(q, g.Analysed, few[:0])
	ids, broken := idsOf(q.Bases), false
	for {
		a := g.search(ctx, q, terms, ids, res, asHits)
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
		return a.err
	}
}

// promptTexts is the number of texts up to which a search takes less time (some tens of µs) than a
// cache lookup would.
const promptTexts = 4096

// Prompt reports whether a search for q returns at once: the bases have few texts and a measured
// floor, and no vectors that would require embedding the question.
func (g *Group) AnswersAtOnce(q *retrieval.Query) bool {
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
func (g *Group) textsAtOnce(h holder) (n int, ok bool) {
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

// search searches those bases of ids that are indexed and stores the result in res.
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
	i := slices.IndexFunc(a.holders, func(h holder) bool { return h.id == id })
	switch {
	case i < 0, a.err == nil && a.holders[i].content.Part():
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
