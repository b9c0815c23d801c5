package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Pipeline is a Retriever over several bases. It searches them in parallel under the query's
// deadline, which starts with Retrieve, and makes one short list of what has arrived by then:
// threshold, merge, dedupe, limit per document, order. Joint bases are searched by one call, as
// one base. The queries of a plan are searched beside the question, and the results are fused. A
// Reranker then orders the candidates, after the deadline and within its own timeout. A Grading
// finally removes irrelevant sources.
//
// A base that is late or fails makes the Result Partial and sets its Reason (an error takes
// precedence over a timeout, a timeout over an incomplete index), even if other bases have
// sources. Retrieve returns an error only if no base answers; it wraps ErrUnavailable. If only a query
// of a plan is not answered, the Result is Partial without a Reason: everything is there that
// would be there without the plan.
//
// The context of a late search is cancelled. A cache in front of a base may still let the search
// finish, for the next request.
//
// Bases and Terms are required.
type Pipeline struct {
	// Bases returns the Retriever of a base, nil if there is none. It is called with a query whose
	// Bases hold only that base, unless the base is joint.
	Bases func(knowledge string) Retriever
	// Joint names the group of bases that a base is ranked together with; "" if it is ranked alone.
	// The bases of a group share one Retriever, which is called once with all of them that the
	// query names; its Result is about all of them. nil: no base is joint.
	Joint func(knowledge string) string
	// Punctual says that all Retrievers return when their context ends, as caches do. A single one
	// is then called without a goroutine, which would take as long as a small search.
	Punctual bool
	// Unfiltered returns all candidates in order as Sources and excludes none, for measurements.
	Unfiltered bool
	// Terms returns the content terms of a text, for finding duplicates.
	Terms func(text string) []string

	selections sync.Pool // *selection
	rooms      sync.Pool // *room
	recent     Recent[readText]
	editions   Recent[edition]
}

// A scratch is the memory of one search. No Result of a Pipeline refers to it.
type scratch struct {
	hits    []Hit
	answers [1]answer // most searches have one answer
}

// Retrieve searches q.Bases. The sources of the result are not shared.
func (p *Pipeline) Retrieve(ctx context.Context, q Query) (res Result, err error) {
	err = p.retrieve(ctx, &q, &res)
	return res, err
}

// retrieve is Retrieve into res, which is empty. It changes q.
func (p *Pipeline) retrieve(ctx context.Context, q *Query, res *Result) error {
	if len(q.Bases) == 0 {
		res.Reason, res.Cache = ReasonNoKnowledge, CacheOff
		return nil
	}
	q.Settings = q.Settings.orDefaults()
	start := time.Now()
	in := p.borrowRoom(q)
	answers := p.search(ctx, q, in)
	kept := lookups(answers)
	arrived := answers[:0] // in their memory
	var failures []error
	worst, provisional, lacks, degraded := ReasonNone, false, false, Stage("")
	var unembedded EmbedReason
	late := 0
	for i := range answers {
		a := &answers[i]
		reason := a.reason()
		if a.further {
			lacks = lacks || reason.Failed()
		} else {
			worst = worse(worst, reason)
		}
		if reason == ReasonTimeout || a.res.EmbedFailure == EmbedTimeout {
			late++
		}
		if a.err != nil {
			failures = append(failures, a.err)
			continue
		}
		unembedded, degraded = cmp.Or(unembedded, a.res.EmbedFailure), cmp.Or(degraded, a.res.Degraded)
		provisional = provisional || a.res.Provisional
		arrived = append(arrived, *a)
	}
	var err error
	limited := ctx
	if by := q.Reranking; by != nil { // one timeout for all rounds of choose
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, by.Timeout)
		defer cancel()
	}
	for len(arrived) > 0 {
		if err = p.choose(limited, arrived, q, res); err == nil {
			break
		}
		// Leave out what cannot be read, like a base that failed.
		worst, failures = ReasonError, append(failures, err)
		arrived = withoutUnreadable(arrived, err)
	}
	if len(arrived) == 0 {
		*res = Result{Reason: worst, Partial: true, Late: late, Cache: CacheOff, Took: time.Since(start)}
		return fmt.Errorf("search %d bases: %w", len(q.Bases), errors.Join(failures...))
	}
	q.grade(ctx, res)
	res.Bases, res.Cache, res.Lookups = searched(arrived, q), cacheOf(arrived), kept
	res.Partial, res.Provisional, res.Degraded = worst.Failed() || lacks, provisional, cmp.Or(degraded, res.failedStage())
	res.EmbedFailure, res.Late = unembedded, late
	if res.Reason = worst; worst == ReasonNone && len(res.Sources) == 0 {
		res.Reason = emptyReason(arrived, res.Graded)
	}
	in.answers = [1]answer{}
	p.rooms.Put(in)
	res.Took = time.Since(start)
	return nil
}

// borrowRoom returns an unused room.
func (p *Pipeline) borrowRoom(q *Query) *scratch {
	in, _ := p.rooms.Get().(*scratch)
	if in == nil {
		in = new(scratch)
	}
	in.hits = slices.Grow(in.hits[:0], q.Settings.NumCandidates)
	return in
}

// asked returns the question with all that joins the search.
func (q *Query) asked() string {
	all := q.Text
	for _, turn := range q.Previous {
		all += "\n" + turn.Text
	}
	for _, further := range q.Further {
		all += "\n" + further
	}
	return all
}

// choose calls selection.choose with pooled memory.
func (p *Pipeline) choose(ctx context.Context, answers []answer, q *Query, res *Result) error {
	sel, _ := p.selections.Get().(*selection)
	if sel == nil {
		sel = new(selection)
	}
	sel.settings, sel.whole, sel.terms, sel.reranking = q.Settings, p.Unfiltered, p.Terms, q.Reranking
	sel.graded = q.Grading.byRerank()
	sel.question.asked, sel.recent, sel.editions = q.asked(), &p.recent, &p.editions
	if q.Reranking != nil {
		sel.query = q.rerankQuery()
	}
	err := sel.choose(ctx, answers, res)
	sel.reset()
	p.selections.Put(sel)
	return err
}

// search searches all bases of q in parallel and returns their answers; an answer that misses the
// deadline is an error. A search without goroutines may use the memory of the room for its answer
// and hits.
func (p *Pipeline) search(ctx context.Context, q *Query, in *scratch) []answer {
	alone := p.Punctual && len(q.Further) == 0 && p.asOne(q.Bases)
	if alone && AnswersAtOnce(p.Bases(q.Bases[0].Knowledge), *q) { // a timer would take a tenth of the time
		p.ask(ctx, q, q.Bases, in.hits, &in.answers[0])
		return in.answers[:]
	}
	ctx, cancel := context.WithTimeout(ctx, q.Settings.Deadline)
	defer cancel()
	ctx = withAnswerBy(ctx)
	if alone {
		p.ask(ctx, q, q.Bases, in.hits, &in.answers[0])
		return in.answers[:]
	}
	groups, queries := p.groups(q.Bases), q.each()
	arriving := make([]chan answer, 0, len(queries)*len(groups))
	for _, query := range queries {
		for _, refs := range groups {
			came := make(chan answer, 1) // buffered, so that a late goroutine does not block
			go func() {
				var a answer
				p.ask(ctx, &query, refs, make([]Hit, 0, query.Settings.NumCandidates), &a)
				came <- a
			}()
			arriving = append(arriving, came)
		}
	}
	answers := make([]answer, len(arriving))
	for i := range arriving {
		answers[i] = await(ctx, arriving[i], groups[i%len(groups)])
		answers[i].query = i / len(groups)
		answers[i].further = i >= len(groups)
	}
	return answers
}

// AnswersAtOnce reports whether all bases of q are searched by one call that returns at once.
func (p *Pipeline) AnswersAtOnce(q Query) bool {
	return p.Punctual && p.asOne(q.Bases) && len(q.Further) == 0 && q.Reranking == nil && q.Grading == nil && AnswersAtOnce(p.Bases(q.Bases[0].Knowledge), q)
}

// asOne reports whether some bases are searched by one call.
func (p *Pipeline) asOne(refs []Ref) bool {
	if len(refs) <= 1 || p.Joint == nil {
		return len(refs) == 1
	}
	first := p.Joint(refs[0].Knowledge)
	apart := func(ref Ref) bool { return p.Joint(ref.Knowledge) != first }
	return first != "" && !slices.ContainsFunc(refs[1:], apart)
}

// each returns the queries to search separately: the question, then the queries of its plan.
func (q *Query) each() []Query {
	one := *q
	one.Further = nil
	all := []Query{one}
	one.Previous = nil
	for _, one.Text = range q.Further {
		all = append(all, one)
	}
	return all
}

// groups groups the joint bases. The order of refs is kept.
func (p *Pipeline) groups(refs []Ref) [][]Ref {
	groups, at := make([][]Ref, 0, len(refs)), map[string]int{}
	for i, ref := range refs {
		name := ""
		if p.Joint != nil {
			name = p.Joint(ref.Knowledge)
		}
		n, known := at[name]
		switch {
		case name != "" && known:
			groups[n] = append(groups[n], ref)
			continue
		case name != "":
			at[name] = len(groups)
		}
		groups = append(groups, refs[i:i+1:i+1])
	}
	return groups
}

// await waits for the answer of some bases. An answer that has not arrived when ctx ends is an
// error.
func await(ctx context.Context, arriving <-chan answer, bases []Ref) (a answer) {
	select {
	case a = <-arriving:
		return a
	case <-ctx.Done():
	}
	select {
	case a = <-arriving: // both were ready
	default:
		a.err = fmt.Errorf("%s: no answer in time: %w: %w", named(bases), ErrUnavailable, context.Cause(ctx))
	}
	return a
}

// named returns "base hr" or "bases hr, it".
func named(bases []Ref) string {
	ids := make([]string, len(bases))
	for i, ref := range bases {
		ids[i] = ref.Knowledge
	}
	if len(ids) == 1 {
		return "base " + ids[0]
	}
	return "bases " + strings.Join(ids, ", ")
}

// ask searches one base, or all joint ones. Any failure, even a panic, affects only these bases.
// The hits may use the memory of hits, which is empty.
func (p *Pipeline) ask(ctx context.Context, q *Query, refs []Ref, hits []Hit, a *answer) {
	defer func() {
		if broken := recover(); broken != nil {
			*a = answer{err: fmt.Errorf("panic: %v", broken)}
		}
		if a.err != nil {
			a.err = fmt.Errorf("%s: %w", named(refs), unavailable(a.err))
		}
	}()
	a.asked = refs
	base := p.Bases(refs[0].Knowledge)
	if base == nil {
		*a = answer{err: errors.New("no such base")}
		return
	}
	// Keep only what an engine uses, so that requests that differ in the rest, such as the length
	// of the answer, share cached candidates. Encoding stays: the engine counts the tokens of its
	// sources in it.
	one := *q
	one.Bases, one.Hits = refs, hits
	one.Settings = Settings{NumCandidates: q.Settings.NumCandidates, DenseWeight: q.Settings.DenseWeight, Fusion: q.Settings.Fusion, Synonyms: q.Settings.Synonyms}
	one.Reranking, one.Grading = nil, nil
	if a.res, a.err = base.Retrieve(ctx, one); a.err == nil {
		a.err = a.checkOrigin()
	}
}

// unavailable wraps err in ErrUnavailable unless it is already wrapped.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

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
// All fields but Join and Unready are required.
type Prepare struct {
	Next Retriever
	// Ref returns the base with an id in its current generation, which is "" until its first index
	// is complete; false if there is no such base.
	Ref func(id string) (Ref, bool)
	// HasTerms reports whether a text has searchable terms, by the analyser of the bases. It runs
	// before the cache, on texts that can be long.
	HasTerms func(text string) bool
	// Join returns the earlier turns that join the search for text, with their weights; nil if
	// text stands alone. The turns are in the order of Query.Previous. nil means that they all
	// join, with the weights that they have.
	Join func(text string, earlier iter.Seq[string]) []Turn
	// Unready returns why a base has no generation: ReasonIndexing or ReasonState. nil means
	// always ReasonIndexing.
	Unready func(base string) Reason
}

// Retrieve completes q and calls Next.
func (p *Prepare) Retrieve(ctx context.Context, q Query) (res Result, err error) {
	ready, indexing := p.bases(q.Bases)
	if len(ready)+len(indexing) == 0 {
		return Result{Reason: ReasonNoKnowledge, Cache: CacheOff}, nil
	}
	q.Text = Fold(q.Text)
	q.Previous = p.joined(q.Text, q.Previous)
	if len(q.Previous) == 0 && !p.HasTerms(q.Text) {
		return Result{Reason: ReasonNoQueryTerms, Cache: CacheOff}, nil
	}
	if len(ready) == 0 {
		res = Result{Bases: indexing, Reason: p.unready(indexing), Partial: true, Cache: CacheOff}
		return res, fmt.Errorf("first index of %d bases is incomplete (%s): %w", len(indexing), res.Reason, ErrUnavailable)
	}
	q.Bases, q.Settings = ready, q.Settings.orDefaults()
	err = p.search(ctx, &q, &res)
	if len(indexing) > 0 {
		res.Partial = true
		if !res.Reason.Failed() {
			res.Reason = p.unready(indexing)
		}
	}
	return res, err
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
		err := p.next(ctx, q, res)
		if err == nil && verdict(res) == GradeAmbiguous {
			p.again(ctx, q, ask, res)
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
func (p *Prepare) next(ctx context.Context, q *Query, res *Result) (err error) {
	*res, err = p.Next.Retrieve(ctx, *q)
	res.Graded = q.Grading.graded(res)
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
	var turns []Turn
	if p.Join == nil {
		for _, t := range earlier {
			turns = append(turns, Turn{Fold(t.Text), t.Weight})
		}
	} else {
		turns = p.Join(text, func(yield func(string) bool) {
			for i := range earlier {
				if !yield(Fold(earlier[i].Text)) {
					return
				}
			}
		})
	}
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
