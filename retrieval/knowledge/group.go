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

// keptUnions is the number of sets of bases that are kept ready to be searched as one. Each
// takes 4 bytes a text.
const keptUnions = 16

// A Group is embedded bases that rank as one: it answers a query from all bases that the
// query names, with the ranking, scores and floor of one base that has the documents of
// these, and of no others.
//
// A base that is still to be indexed is left out, and so is one that is damaged: the answer
// is then partial, and its Bases are those that were searched. There is an error where none
// is left.
//
// After a base has changed, the floor is measured anew, in some 4 µs a text. An answer that
// would wait for that longer than Wait has an estimate, and is provisional.
//
// The fields do not change once it is in use. It is safe for concurrent use.
type Group struct {
	// Base returns the base of an id, nil where there is none.
	Base func(id string) *Base
	// Analysed knows the words of questions; nil for none.
	Analysed *analysis.Recent
	// Searched is told what came of each base of each search; it may be nil.
	Searched func(id string, reason retrieval.Reason)
	// Start runs f in the background; f ends early with its context.
	Start func(f func(ctx context.Context))
	// Wait is how long an answer waits for a floor at most.
	Wait time.Duration
	// Questions makes the vectors of questions to bases that have vectors; nil where none has.
	Questions Questions
	// VectorsOnly ranks by cosine alone, without a floor, what has vectors: it measures what they
	// contribute. Without Questions a Group measures that of words.
	VectorsOnly bool

	recent index.RecentTexts
	rooms  sync.Pool // see extent

	mu   sync.Mutex
	kept map[string]*union // by the ids of the bases; keptUnions at most
	uses uint64            // counts what is asked of kept

	measuring sync.Mutex // held while a floor is measured: one at a time leaves processors to requests
}

// An attempt is what came of searching some bases together.
type attempt struct {
	holders []holder // those that are indexed
	res     *retrieval.Result
	err     error
	broken  string // the base because of which there is an error; "" if there is none, or it is no base's
}

// Retrieve answers from the bases in q.Bases as Base.Retrieve does from one.
func (g *Group) Retrieve(ctx context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	err = g.Find(ctx, &q, &res)
	return res, err
}

// Find is Retrieve into res, with hits where that comes with room for them.
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

// promptTexts is up to how many texts a search takes less time, some tens of µs, than what a
// cache in front of it does.
const promptTexts = 4096

// Prompt tells whether the bases of q have few texts and a floor, and no vectors, for which that
// of the question would be waited for.
func (g *Group) Prompt(q *retrieval.Query) bool {
	if len(q.Bases) == 1 { // which need not be joined
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

// textsAtOnce returns how many texts a base has; false where it cannot answer at once.
func (g *Group) textsAtOnce(h holder) (n int, ok bool) {
	if h.content == nil || g.Questions != nil && h.content.vectors != nil {
		return 0, false
	}
	return h.content.Chunks(), true
}

// idsOf returns the bases of a query by id, each once.
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

// search answers into res from those of some bases that are indexed.
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

// breaking returns the first of some bases a search in which panics, "" if none does.
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

// reason says what came of one base.
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

// absent returns bases that are not indexed.
func absent(ids []string) []retrieval.Ref {
	list := make([]retrieval.Ref, len(ids))
	for i, id := range ids {
		list[i].Knowledge = id
	}
	return list
}
