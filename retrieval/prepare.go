package retrieval

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Prepare comes before every cache. It turns questions that mean the same into the same
// Query, and answers those that need no search:
//
//   - Text in NFKC with folded white space, and of Previous the turns that join the
//     search, likewise, with their weights; none for a question that stands alone, so that
//     what was said before it changes neither its answer nor its cache key.
//   - Bases (the caller gives ids only) with their generations, sorted, each once;
//     unknown ones are dropped. None left is ReasonNoKnowledge.
//   - Bases without a whole index are left out: the Result is then Partial with
//     ReasonIndexing or ReasonState, unless there is a worse reason. If that is all of them,
//     the error wraps ErrUnavailable.
//   - No term in Text and Previous is ReasonNoQueryTerms.
//   - Planning is asked for Further. If nothing need be searched by its plan, that is
//     ReasonPlannerSkip.
//   - With Planning.Replan that is asked only where what the question finds is ambiguous, and Next
//     is asked twice then.
//   - Settings that make no sense become the defaults.
//
// All its fields but Unready are required.
type Prepare struct {
	Next Retriever
	// Ref returns the base of an id in its present generation, "" while its first index
	// is not whole; false where there is no such base.
	Ref func(id string) (Ref, bool)
	// HasTerms tells whether there is anything to search for in a text, by the analyser of the
	// bases. It is asked before the cache, and texts can be long.
	HasTerms func(text string) bool
	// Join returns which of the earlier turns join the search for text, with their weights; nil
	// if it stands alone. It is given the turns in the order of Query.Previous.
	Join func(text string, earlier iter.Seq[string]) []Turn
	// Unready returns why a base has no generation: ReasonIndexing or ReasonState. If it is nil,
	// the reason is ReasonIndexing.
	Unready func(base string) Reason
}

// Retrieve completes q and asks Next.
func (p *Prepare) Retrieve(ctx context.Context, q Query) (res Result, err error) {
	err = p.Find(ctx, &q, &res)
	return res, err
}

// Find is Retrieve into res.
func (p *Prepare) Find(ctx context.Context, q *Query, res *Result) error {
	ready, indexing := p.bases(q.Bases)
	if len(ready)+len(indexing) == 0 {
		*res = Result{Reason: ReasonNoKnowledge, Cache: CacheOff}
		return nil
	}
	q.Text = Fold(q.Text)
	q.Previous = p.joined(q.Text, q.Previous)
	if len(q.Previous) == 0 && !p.HasTerms(q.Text) {
		*res = Result{Reason: ReasonNoQueryTerms, Cache: CacheOff}
		return nil
	}
	if len(ready) == 0 {
		*res = Result{Bases: indexing, Reason: p.unready(indexing), Partial: true, Cache: CacheOff}
		return fmt.Errorf("first index of %d bases not whole (%s): %w", len(indexing), res.Reason, ErrUnavailable)
	}
	q.Bases, q.Settings = ready, q.Settings.orDefaults()
	err := p.search(ctx, q, res)
	if len(indexing) > 0 {
		res.Partial = true
		if !res.Reason.Failed() {
			res.Reason = p.unready(indexing)
		}
	}
	return err
}

// unready returns the worst reason why bases have no index.
func (p *Prepare) unready(bases []Ref) Reason {
	reason := ReasonIndexing
	for _, ref := range bases {
		if p.Unready != nil {
			reason = worse(reason, p.Unready(ref.Knowledge))
		}
	}
	return reason
}

// search asks Next, for a plan's queries, too.
func (p *Prepare) search(ctx context.Context, q *Query, res *Result) error {
	ask := q.Planning
	if q.Planning = nil; ask == nil {
		return p.next(ctx, q, res)
	}
	if ask.Replan && q.Grading != nil {
		second := *q
		err := p.next(ctx, q, res)
		if err == nil && verdict(res) == GradeAmbiguous {
			p.again(ctx, &second, ask, res)
		}
		return err
	}
	further, skip, done := ask.plan(ctx, q.Text, p.HasTerms)
	if skip {
		*res = Result{Reason: ReasonPlannerSkip, Cache: CacheOff, Planned: &done}
		return nil
	}
	q.Further = further
	err := p.next(ctx, q, res)
	res.Planned = &done
	return err
}

// again searches once more, for the queries of a plan, too. What the first search found stays where
// there are none, or where what they find is not graded.
func (p *Prepare) again(ctx context.Context, q *Query, ask *Planning, res *Result) {
	further, _, done := ask.plan(ctx, q.Text, p.HasTerms)
	res.Planned = &done
	if len(further) == 0 {
		return
	}
	q.Further = further
	var second Result
	err := p.next(ctx, q, &second)
	graded := *second.Graded
	if graded.Rounds = 2; err != nil {
		graded.Reason = rerankReason(err)
	}
	first := *res
	*res = second
	if graded.Reason != RerankOK {
		*res, graded.Verdict = first, first.Graded.Verdict
		res.Degraded, res.Reranked = cmp.Or(second.Degraded, StageGrade), cmp.Or(second.Reranked, first.Reranked)
	}
	res.Planned, res.Graded, res.Took, res.Late = &done, &graded, first.Took+second.Took, first.Late+second.Late
	res.Lookups = slices.Concat(first.Lookups, second.Lookups)
}

// next asks Next, and tells of what was kept what came of grading it.
func (p *Prepare) next(ctx context.Context, q *Query, res *Result) error {
	grading := q.Grading
	err := Find(ctx, p.Next, q, res)
	res.Graded = grading.graded(res)
	return err
}

// Locate finds texts as Next does.
func (p *Prepare) Locate(ctx context.Context, q Query, hits []*Source) (Texts, error) {
	next, ok := p.Next.(Locator)
	if !ok {
		return nil, fmt.Errorf("texts are not kept here: %w", ErrNoHit)
	}
	return next.Locate(ctx, q, hits)
}

// bases looks up the bases of a query, and sorts them: their order means nothing, so it
// must not change the cache key.
func (p *Prepare) bases(asked []Ref) (ready, indexing []Ref) {
	ready = make([]Ref, 0, len(asked))
	for _, a := range asked {
		ref, ok := p.Ref(a.Knowledge)
		switch {
		case !ok:
		case ref.Generation == "":
			indexing = append(indexing, ref)
		default:
			ready = append(ready, ref)
		}
	}
	return distinct(ready), distinct(indexing)
}

func distinct(refs []Ref) []Ref {
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Knowledge, b.Knowledge) })
	return slices.CompactFunc(refs, func(a, b Ref) bool { return a.Knowledge == b.Knowledge })
}

// joined returns those of the earlier turns that join the search and have terms, nil if
// there are none.
func (p *Prepare) joined(text string, earlier []Turn) []Turn {
	if len(earlier) == 0 {
		return nil
	}
	turns := p.Join(text, func(yield func(string) bool) {
		for i := range earlier {
			if !yield(Fold(earlier[i].Text)) {
				return
			}
		}
	})
	turns = slices.DeleteFunc(turns, func(t Turn) bool { return !p.HasTerms(t.Text) })
	if len(turns) == 0 {
		return nil
	}
	return turns
}

// Fold returns text in NFKC, runs of white space as one space, none at the ends.
func Fold(text string) string {
	if folded(text) {
		return text
	}
	return strings.Join(strings.Fields(norm.NFKC.String(text)), " ")
}

// folded recognises the plain ASCII that Fold would return as it is.
func folded(text string) bool {
	space := true // as if one stood before the text
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf || c < ' ' || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || text == ""
}
