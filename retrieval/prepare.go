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

// Prepare runs before every cache. It normalizes queries, so that questions with the same meaning
// become the same Query, and answers those that need no search:
//
//   - Text becomes NFKC with folded white space. Previous keeps only the turns that join the
//     search, likewise, with their weights; it is empty for a question that stands alone, so
//     that earlier turns change neither its answer nor its cache key.
//   - Bases (the caller sets ids only) get their generations, sorted and without duplicates;
//     unknown ones are dropped. If none is left, the Reason is ReasonNoKnowledge.
//   - Bases without a complete index are left out: the Result is then Partial with
//     ReasonIndexing or ReasonState, unless there is a worse reason. If no base is left,
//     the error wraps ErrUnavailable.
//   - If Text and Previous have no term, the Reason is ReasonNoQueryTerms.
//   - Planning sets Further. If the plan says that no search is needed, the Reason is
//     ReasonPlannerSkip.
//   - With Planning.Replan, the planner runs only if the first search is graded ambiguous; if
//     it plans further queries, Next is called a second time.
//   - Invalid settings are replaced by the defaults.
//
// All fields but Unready are required.
type Prepare struct {
	Next Retriever
	// Ref returns the base with an id in its current generation, which is "" until its first index
	// is complete; false if there is no such base.
	Ref func(id string) (Ref, bool)
	// HasTerms reports whether a text has searchable terms, by the analyser of the bases. It runs
	// before the cache, on texts that can be long.
	HasTerms func(text string) bool
	// Join returns the earlier turns that join the search for text, with their weights; nil if
	// text stands alone. The turns are in the order of Query.Previous.
	Join func(text string, earlier iter.Seq[string]) []Turn
	// Unready returns why a base has no generation: ReasonIndexing or ReasonState. nil means
	// always ReasonIndexing.
	Unready func(base string) Reason
}

// Retrieve completes q and calls Next.
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

// unready returns the worst reason for which bases have no index.
func (p *Prepare) unready(bases []Ref) Reason {
	reason := ReasonIndexing
	for _, ref := range bases {
		if p.Unready != nil {
			reason = worse(reason, p.Unready(ref.Knowledge))
		}
	}
	return reason
}

// search calls Next, after planning if the query asks for it.
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

// again searches once more, with the queries of a plan. The result of the first search stays if
// there are no such queries, or if the second result is not graded.
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

// next calls Next, and reports the grading of a cached result too.
func (p *Prepare) next(ctx context.Context, q *Query, res *Result) error {
	grading := q.Grading
	err := Find(ctx, p.Next, q, res)
	res.Graded = grading.graded(res)
	return err
}

// Locate calls Next, which must be a Locator.
func (p *Prepare) Locate(ctx context.Context, q Query, hits []*Source) (Texts, error) {
	next, ok := p.Next.(Locator)
	if !ok {
		return nil, fmt.Errorf("texts are not kept here: %w", ErrNoHit)
	}
	return next.Locate(ctx, q, hits)
}

// bases looks up the bases of a query and sorts them, so that their order does not change the
// cache key.
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

// joined returns the earlier turns that join the search and have terms, nil if there are none.
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

// Fold returns text in NFKC, with runs of white space as one space and none at the ends.
func Fold(text string) string {
	if folded(text) {
		return text
	}
	return strings.Join(strings.Fields(norm.NFKC.String(text)), " ")
}

// folded reports whether text is ASCII that Fold would return unchanged.
func folded(text string) bool {
	space := true // as if a space preceded the text
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf || c < ' ' || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || text == ""
}
