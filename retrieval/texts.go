package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

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
	ErrGone  = fmt.Errorf("the generation that was searched is gone: %w", ErrUnavailable)
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

// WithTexts is a Retriever that reads the texts of all hits, for callers that show them all.
type WithTexts struct{ Next Retriever }

// Retrieve returns Next's sources with their texts.
func (w WithTexts) Retrieve(ctx context.Context, q Query) (Result, error) {
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
	for i := range res.Sources {
		res.Sources[i].At = Place{} // the text is here
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
		return nil, fmt.Errorf("of another base: %w", ErrNoHit)
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
