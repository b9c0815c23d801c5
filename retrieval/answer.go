package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// An answer is the outcome of searching one base, or all joint ones.
type answer struct {
	res     Result
	err     error
	further bool  // to a query of a plan
	query   int   // number of the plan's query, from 1; 0: the question
	asked   []Ref // bases of the call; nil if no answer arrived
}

// checkOrigin returns an error if the answer contains anything from a base that was not asked.
func (a *answer) checkOrigin() error {
	asked := func(knowledge string) bool {
		return slices.ContainsFunc(a.asked, func(ref Ref) bool { return ref.Knowledge == knowledge })
	}
	for i := range a.res.Sources {
		if of := a.res.Sources[i].Knowledge; !asked(of) {
			return fmt.Errorf("answered with a source of base %q", of)
		}
	}
	for i := range a.res.Hits {
		if base := a.res.Hits[i].Base; base < 0 || base >= len(a.res.Bases) || !asked(a.res.Bases[base].Knowledge) {
			return fmt.Errorf("answered with a hit of base %d of %v", base, a.res.Bases)
		}
	}
	return nil
}

// reason says what is wrong with an answer; ReasonNone if it is complete.
func (a answer) reason() Reason {
	switch {
	case a.res.Reason.Failed():
		return a.res.Reason
	case a.err == nil && !a.res.Partial:
		return ReasonNone
	case errors.Is(a.err, context.DeadlineExceeded), errors.Is(a.err, context.Canceled):
		return ReasonTimeout
	}
	return ReasonError
}

func worse(a, b Reason) Reason {
	for _, r := range [...]Reason{ReasonError, ReasonTimeout, ReasonState, ReasonIndexing} {
		if a == r || b == r {
			return r
		}
	}
	return ReasonNone
}

// failedStage returns the stage after the search that was requested and failed.
func (r *Result) failedStage() Stage {
	switch {
	case r.Reranked.Failed() != "":
		return StageRerank
	case r.Graded.Failed() != "":
		return StageGrade
	}
	return ""
}

// emptyReason returns the reason of an answer that has no sources although nothing failed.
func emptyReason(arrived []answer, graded *Graded) Reason {
	if graded != nil && graded.Verdict == GradeIrrelevant {
		return ReasonIrrelevant
	}
	if slices.ContainsFunc(arrived, func(a answer) bool { return a.res.Reason != ReasonNoQueryTerms }) {
		return ReasonNoMatch
	}
	return ReasonNoQueryTerms
}

// lookups returns the cache lookups of the answers.
func lookups(answers []answer) (list []Lookup) {
	for _, a := range answers {
		if a.res.CacheKey != 0 {
			list = append(list, Lookup{a.asked[0].Knowledge, len(a.asked) - 1, a.query, a.res.Cache, a.res.CacheKey})
		}
	}
	return list
}

// cacheOf returns CacheHit if all answers are hits, and CacheOff if no base has a cache.
func cacheOf(arrived []answer) CacheState {
	missed := func(a answer) bool { return a.res.Cache != CacheHit }
	cached := func(a answer) bool { return a.res.Cache == CacheHit || a.res.Cache == CacheMiss }
	switch {
	case !slices.ContainsFunc(arrived, missed):
		return CacheHit
	case slices.ContainsFunc(arrived, cached):
		return CacheMiss
	}
	return CacheOff
}

// searched returns the bases that answered, in the order of the query, which a cache compares them
// with. If the queries of a plan saw different generations of a base, it returns both, so that the
// result is not cached.
func searched(arrived []answer, q *Query) []Ref {
	place := func(ref Ref) int {
		return slices.IndexFunc(q.Bases, func(asked Ref) bool { return asked.Knowledge == ref.Knowledge })
	}
	order := func(a, b Ref) int { return cmp.Compare(place(a), place(b)) }
	refs := arrived[0].res.Bases
	if len(arrived) == 1 && slices.IsSortedFunc(refs, order) {
		return refs
	}
	refs = slices.Clone(refs) // they may be shared
	for i := range arrived[1:] {
		refs = append(refs, arrived[1+i].res.Bases...)
	}
	slices.SortStableFunc(refs, order)
	if len(q.Further) > 0 {
		refs = slices.Compact(refs)
	}
	return refs
}
