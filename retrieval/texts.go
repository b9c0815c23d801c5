package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Texts are the texts of the hits of one Result, in the generation that was searched. They are
// read for what is selected only.
//
// An error wraps ErrUnavailable, and is a *UnreadableError where it is about one base. It is
// safe for concurrent use.
type Texts interface {
	// Mark fills in the marks of hits, by their places.
	Mark(hits []Hit) error
	// Sketch returns that of the terms of a text, made at ingest.
	Sketch(of *Hit) (Sketch, error)
	// Read completes sources, by their places: by Doc, Chunk, Name, Section, Text, Before, After
	// and Tokens.
	Read(sources []*Source) error
	// Label calls add with the label of each hit, in their order. They have their marks, and Base
	// is its number in the Result's Bases, or in those of the Query of Locate.
	Label(hits []*Hit, add func(Label)) error
}

// A Locator finds the texts of hits again, of which a cache kept base, document, chunk and
// place.
type Locator interface {
	// Locate returns the texts of hits of q.Bases, in these generations, and corrects their
	// places. The error wraps ErrGone where a base has another generation by now, and ErrNoHit
	// where there is no such chunk.
	Locate(ctx context.Context, q Query, hits []*Source) (Texts, error)
}

// The errors of a Locator.
var (
	ErrGone  = fmt.Errorf("the generation that was searched is gone: %w", ErrUnavailable)
	ErrNoHit = errors.New("no such chunk")
)

// An UnreadableError is about a base whose texts cannot be read, such as one whose file is
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

// Whole is a Retriever that reads the texts of all hits of an engine, for callers that show
// them all.
type Whole struct{ Next Retriever }

// Retrieve answers with Next's sources and their texts.
func (w Whole) Retrieve(ctx context.Context, q Query) (Result, error) {
	res, err := w.Next.Retrieve(ctx, q)
	if err != nil || res.Texts == nil {
		return res, err
	}
	res.Sources = append([]Source(nil), res.Sources...) // others may share them
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

// An unreadableAnswer is an answer whose texts cannot be read.
type unreadableAnswer struct {
	from      int    // its number
	knowledge string // the base because of which; "" if it is not known
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

// withoutUnreadable removes what choose could not read: the base that is known to be the
// reason, else all of the answer.
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
	// Others may be reading the lists. Hits name their base by its number.
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

// Locate finds the texts of sources again that this Pipeline found.
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
	if found < len(hits) { // what a store returned may name any base
		return nil, fmt.Errorf("of another base: %w", ErrNoHit)
	}
	if len(all.of) == 1 {
		return all.of[0].texts, nil
	}
	return all, nil
}

// located are texts that belong to some bases.
type located struct {
	refs  []Ref
	texts Texts
}

func (l located) has(knowledge string) bool {
	return slices.ContainsFunc(l.refs, func(ref Ref) bool { return ref.Knowledge == knowledge })
}

// locatedTexts are the texts of several engines.
type locatedTexts struct {
	bases []Ref // of the query
	of    []located
}

// Mark marks all hits by the engines that keep them.
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

// Sketch is not asked for: what a Pipeline has found was compared already.
func (locatedTexts) Sketch(*Hit) (Sketch, error) {
	return Sketch{}, errors.ErrUnsupported
}

// keeper returns the engine that keeps the texts of a base.
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
