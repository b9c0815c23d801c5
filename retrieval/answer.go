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

// answers are the answers of one search. They read the texts of candidates that are hits.
type answers []answer

// texts returns the Texts of a candidate's answer.
func (all answers) texts(c *candidate) Texts { return all[c.from].res.Texts }

// read reads the texts of chosen hits into sources, the list made of chosen.
func (all answers) read(chosen []*candidate, sources []Source, room *[]*Source) error {
	for from := range all {
		of := (*room)[:0]
		for i, c := range chosen {
			if c.from == from && c.hit != nil {
				of = append(of, &sources[i])
			}
		}
		if *room = of; len(of) == 0 {
			continue
		}
		if err := all[from].res.Texts.Read(of); err != nil {
			return unreadable(from, err)
		}
	}
	return nil
}

// same reports whether two candidates whose keys do not differ have the same text. It reads the
// texts that an engine keeps.
func (all answers) same(a, b *candidate) bool {
	if a.hit == nil && b.hit == nil {
		return a.source.Text == b.source.Text
	}
	x, ok := all.whole(a)
	if !ok {
		return false
	}
	y, ok := all.whole(b)
	return ok && x.Text == y.Text
}

// whole returns a candidate's source with its text; false if the text cannot be read, an error
// that is reported when the candidate is selected.
func (all answers) whole(c *candidate) (Source, bool) {
	src := c.result()
	if c.hit == nil {
		return src, true
	}
	err := all.texts(c).Read([]*Source{&src})
	return src, err == nil
}

// identity returns a candidate's document and the ordinal of its chunk.
func (all answers) identity(c *candidate) (doc string, chunk int) {
	if c.source != nil {
		return c.source.Doc, c.source.Chunk
	}
	// A read error is reported when the candidate is selected or recorded.
	_ = all.texts(c).Label([]*Hit{c.hit}, func(label Label) { doc, chunk = string(label.Doc), label.Chunk })
	return doc, chunk
}

// sketch returns the sketch of a hit's text; an empty one, similar to nothing, if it cannot be
// read.
func (all answers) sketch(c *candidate) Sketch {
	of, _ := all.texts(c).Sketch(c.hit)
	return of
}

// An excludedWriter records excluded candidates in reusable memory.
type excludedWriter struct {
	packed excludedPacker
	entry  Excluded
	hits   []*Hit
	rest   []exclusion // not written yet
	next   func(Label) // add as a func value, made once
}

// write encodes excluded candidates in order. Labels of consecutive hits of one answer are read by
// one call.
func (w *excludedWriter) write(all answers, list []exclusion, floor float64) (ExcludedList, error) {
	if w.next == nil {
		w.next = w.add
	}
	w.packed.Reset(floor)
	for w.rest = list; len(w.rest) > 0; {
		first := w.rest[0]
		if src := first.source; first.hit == nil {
			w.add(Label{Doc: []byte(src.Doc), Chunk: src.Chunk, Name: []byte(src.Name), Section: []byte(src.Section)})
			continue
		}
		w.hits = w.hits[:0]
		for _, f := range w.rest {
			if f.from != first.from || f.hit == nil {
				break
			}
			w.hits = append(w.hits, f.hit)
		}
		if err := all.texts(first.candidate).Label(w.hits, w.next); err != nil {
			return ExcludedList{}, unreadable(first.from, err)
		}
	}
	return w.packed.List(), nil
}

func (w *excludedWriter) add(label Label) {
	w.rest[0].write(&w.entry)
	w.packed.Add(&w.entry, label)
	w.rest = w.rest[1:]
}

// reset drops all references.
func (w *excludedWriter) reset() {
	clear(w.hits[:cap(w.hits)])
	w.rest, w.entry = nil, Excluded{}
}

// Texts reads the texts of the hits of one Result, in the generation that was searched. Only
// selected texts are read.
//
// An error wraps ErrUnavailable, and is an *UnreadableError if it concerns one base.
// Implementations are safe for concurrent use.
type Texts interface {
	// Mark sets the Mark of each hit, found by its place.
	Mark(hits []Hit) error
	// Sketch returns the sketch of a text's terms, made at ingest.
	Sketch(of *Hit) (Sketch, error)
	// Read sets Doc, Chunk, Name, Section, Text, Before, After and Tokens of sources, found by
	// their places.
	Read(sources []*Source) error
	// Label calls add with the label of each hit, in order. The hits must have their marks, and
	// Base must be an index into the Bases of the Result, or of the Query of Locate.
	Label(hits []*Hit, add func(Label)) error
}

// A Locator finds the texts of hits whose base, document, chunk and place were cached.
type Locator interface {
	// Locate returns the texts of hits of q.Bases, in these generations, and corrects their
	// places. The error wraps ErrGone if a base has a newer generation, and ErrNoHit if there is
	// no such chunk.
	Locate(ctx context.Context, q Query, hits []*Source) (Texts, error)
}

// The errors of a Locator.
var (
	ErrGone  = fmt.Errorf("the searched generation no longer exists: %w", ErrUnavailable)
	ErrNoHit = errors.New("no such chunk")
)

// An UnreadableError says that texts of a base cannot be read, for instance because a file is
// damaged. It wraps ErrUnavailable.
type UnreadableError struct {
	Knowledge string
	Err       error
}

func (e *UnreadableError) Error() string {
	return "read texts of base " + e.Knowledge + ": " + e.Err.Error()
}

// Unwrap returns ErrUnavailable and the cause.
func (e *UnreadableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// WithTexts is a Retriever that reads the texts of all hits, for callers that use them all.
type WithTexts struct {
	Next     Retriever
	Sketches bool // read the sketches, too
}

// Retrieve returns Next's sources with their texts.
func (w WithTexts) Retrieve(ctx context.Context, q Query) (Result, error) {
	q.Hits = nil // its result has sources
	res, err := w.Next.Retrieve(ctx, q)
	if err != nil || res.Texts == nil {
		return res, err
	}
	res.Sources = append([]Source(nil), res.Sources...) // they may be shared
	all := make([]*Source, len(res.Sources))
	for i := range res.Sources {
		all[i] = &res.Sources[i]
	}
	if err := res.Texts.Read(all); err != nil {
		return Result{Bases: res.Bases, Reason: ReasonError, Partial: true, Cache: res.Cache}, err
	}
	for _, src := range all {
		if !src.At.Kept {
			continue
		}
		if w.Sketches {
			if sketch, err := res.Texts.Sketch(&Hit{At: src.At}); err == nil {
				src.Sketch = string(sketch.append(nil))
			}
		}
		src.At = Place{} // the text is here
	}
	res.Texts = nil
	return res, nil
}

// An unreadableAnswer says that the texts of an answer cannot be read.
type unreadableAnswer struct {
	from      int    // index of the answer
	knowledge string // the base that caused it; "" if unknown
	err       error
}

func (e *unreadableAnswer) Error() string { return e.err.Error() }
func (e *unreadableAnswer) Unwrap() error { return e.err }

func unreadable(from int, err error) *unreadableAnswer {
	broken := &unreadableAnswer{from: from, err: unavailable(err)}
	if base, ok := errors.AsType[*UnreadableError](err); ok {
		broken.knowledge = base.Knowledge
	}
	return broken
}

// withoutUnreadable removes what choose could not read: the base that caused the error if known,
// else the whole answer.
func withoutUnreadable(answers []answer, err error) []answer {
	e, ok := errors.AsType[*unreadableAnswer](err)
	if !ok {
		return nil
	}
	a := &answers[e.from].res
	base := slices.IndexFunc(a.Bases, func(ref Ref) bool { return ref.Knowledge == e.knowledge })
	of := func(src Source) bool { return src.Knowledge == e.knowledge }
	hit := func(h Hit) bool { return h.Base == base }
	if e.knowledge == "" || !slices.ContainsFunc(a.Sources, of) && !slices.ContainsFunc(a.Hits, hit) || len(a.Bases) == 1 {
		return slices.Delete(answers, e.from, e.from+1)
	}
	// The lists may be shared. Hits refer to their base by index.
	a.Sources = slices.DeleteFunc(slices.Clone(a.Sources), of)
	a.Hits = slices.DeleteFunc(slices.Clone(a.Hits), hit)
	for i := range a.Hits {
		if base >= 0 && a.Hits[i].Base > base {
			a.Hits[i].Base--
		}
	}
	a.Bases = slices.DeleteFunc(slices.Clone(a.Bases), func(ref Ref) bool { return ref.Knowledge == e.knowledge })
	return answers
}

// Locate finds the texts of sources that this Pipeline has found before.
func (p *Pipeline) Locate(ctx context.Context, q Query, hits []*Source) (Texts, error) {
	all := locatedTexts{bases: q.Bases}
	found := 0
	for _, refs := range p.groups(q.Bases) {
		var of []*Source
		for _, hit := range hits {
			if slices.ContainsFunc(refs, func(ref Ref) bool { return ref.Knowledge == hit.Knowledge }) {
				of = append(of, hit)
			}
		}
		if found += len(of); len(of) == 0 {
			continue
		}
		base, ok := p.Bases(refs[0].Knowledge).(Locator)
		if !ok {
			return nil, fmt.Errorf("%s: keeps no texts: %w", named(refs), ErrNoHit)
		}
		q.Bases = refs
		texts, err := base.Locate(ctx, q, of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named(refs), err)
		}
		all.of = append(all.of, located{refs, texts})
	}
	if found < len(hits) { // cached entries may name any base
		return nil, fmt.Errorf("source of a base that was not searched: %w", ErrNoHit)
	}
	if len(all.of) == 1 {
		return all.of[0].texts, nil
	}
	return all, nil
}

// located are the texts of some bases.
type located struct {
	refs  []Ref
	texts Texts
}

func (l located) has(knowledge string) bool {
	return slices.ContainsFunc(l.refs, func(ref Ref) bool { return ref.Knowledge == knowledge })
}

// locatedTexts combines the texts of several engines.
type locatedTexts struct {
	bases []Ref // of the query
	of    []located
}

// Mark marks each hit by the engine that keeps its text.
func (all locatedTexts) Mark(hits []Hit) error {
	for i := range hits {
		l, ok := all.keeper(hits[i].Base)
		if !ok {
			return errors.ErrUnsupported
		}
		if err := l.texts.Mark(hits[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Sketch is unsupported: results of a Pipeline are already deduplicated.
func (locatedTexts) Sketch(*Hit) (Sketch, error) {
	return Sketch{}, errors.ErrUnsupported
}

// keeper returns the texts of the engine of a base.
func (all locatedTexts) keeper(base int) (located, bool) {
	if base < 0 || base >= len(all.bases) {
		return located{}, false
	}
	at := slices.IndexFunc(all.of, func(l located) bool { return l.has(all.bases[base].Knowledge) })
	if at < 0 {
		return located{}, false
	}
	return all.of[at], true
}

func (all locatedTexts) Read(sources []*Source) error {
	for _, l := range all.of {
		of := slices.DeleteFunc(slices.Clone(sources), func(src *Source) bool { return !l.has(src.Knowledge) })
		if err := l.texts.Read(of); err != nil {
			return err
		}
	}
	return nil
}

func (all locatedTexts) Label(hits []*Hit, add func(Label)) error {
	for i := range hits {
		l, ok := all.keeper(hits[i].Base)
		if !ok {
			return errors.ErrUnsupported
		}
		if err := l.texts.Label(hits[i:i+1], add); err != nil {
			return err
		}
	}
	return nil
}
