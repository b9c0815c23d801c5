package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sidenote/retrieval"
)

// A Retriever is a cache in front of one base, or of those that are joint (Candidates), or
// of the whole pipeline (Selected). A result is kept if it is complete, final and of the
// generations that were asked for. Where there is no far tier, candidates that are found at once
// (retrieval.Prompter) are not kept: that takes longer than to find them again.
//
// A caller leaves when its context ends, with an error that wraps
// retrieval.ErrUnavailable.
type Retriever struct {
	next  retrieval.Retriever
	cache Of[retrieval.Result]
}

// NewRetriever returns a cache in front of next. observe may be nil.
func NewRetriever(next retrieval.Retriever, kind Kind, tiers []Tier, observe func(Event)) *Retriever {
	return &Retriever{next, Of[retrieval.Result]{
		Kind: kind, Tiers: tiers, Observe: observe,
		Encode: Encode, Decode: Decode, Empty: func(res retrieval.Result) bool { return len(res.Sources) == 0 }, Size: memoryOf,
	}}
}

// memoryOf is about the memory that a result takes. Those that hold on to an engine's texts are
// not to be remembered: these may be files that are no longer in use.
func memoryOf(res retrieval.Result) int {
	if res.Texts != nil {
		return -1
	}
	const perSource = 256
	n := perSource*len(res.Sources) + res.Fallen.Bytes()
	for i := range res.Sources {
		s := &res.Sources[i]
		n += len(s.Text) + len(s.Before) + len(s.After)
	}
	return n
}

// Retrieve answers q from a tier, else from the retriever behind it.
func (r *Retriever) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	return r.RetrieveInto(ctx, q, nil)
}

// RetrieveInto is Retrieve with sources in room where nothing is kept: what is kept is shared.
func (r *Retriever) RetrieveInto(ctx context.Context, q retrieval.Query, room []retrieval.Source) (retrieval.Result, error) {
	if !cacheable(q) || r.cache.Kind == Candidates && len(r.cache.Tiers) == 1 && retrieval.Prompt(r.next, q) {
		r.cache.observe(Event{Result: Bypass})
		return retrieval.RetrieveInto(ctx, r.next, q, room)
	}
	start := time.Now()
	var written [writtenRoom]byte
	var l Lookup[retrieval.Result]
	id := appendQuery(written[:0], r.cache.Kind, &q)
	res, hit := r.cache.Near(ctx, q.Tenant, id, &l)
	if hit {
		res.Cache, res.CacheKey, res.Took = retrieval.CacheHit, l.key.short(), time.Since(start)
		return res, nil
	}
	return r.far(ctx, q, id, l)
}

// Prompt tells whether the retriever behind the cache answers q at once.
func (r *Retriever) Prompt(q retrieval.Query) bool { return retrieval.Prompt(r.next, q) }

// cacheable tells whether the generation of every base of q is known, so that its result
// can be cached.
func cacheable(q retrieval.Query) bool {
	return len(q.Bases) > 0 && !slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" })
}

// far answers a query, identified by id, that the nearest tier did not answer. It is a function of its own
// so that q and l move to the heap here, and not in Retrieve, where hits are answered.
func (r *Retriever) far(ctx context.Context, q retrieval.Query, id []byte, l Lookup[retrieval.Result]) (retrieval.Result, error) {
	f, landed := r.cache.Far(ctx, id, l, Search[retrieval.Result]{
		Prompt:   retrieval.Prompt(r.next, q),
		Complete: func(ctx context.Context, res *retrieval.Result) error { return r.readTexts(ctx, q, res) },
		Find: func(ctx context.Context) (retrieval.Result, bool, error) {
			res, err := r.next.Retrieve(ctx, q)
			return res, complete(res, q), err
		},
	})
	if !landed {
		return retrieval.Result{Reason: retrieval.ReasonTimeout, Partial: true, Cache: retrieval.CacheMiss, CacheKey: l.key.short()},
			fmt.Errorf("%s: no answer in time: %w: %w", r.cache.Kind, retrieval.ErrUnavailable, context.Cause(ctx))
	}
	res, err := f.Value, f.Err
	res.Cache, res.CacheKey = retrieval.CacheMiss, l.key.short()
	if f.Hit {
		res.Cache, res.Took = retrieval.CacheHit, f.Took
	}
	if err == nil {
		return res, nil
	}
	if !errors.Is(err, retrieval.ErrUnavailable) {
		err = fmt.Errorf("search: %w: %w", retrieval.ErrUnavailable, err)
	}
	switch {
	case res.Reason.Failed():
	case errors.Is(err, context.DeadlineExceeded):
		res.Reason = retrieval.ReasonTimeout
	default:
		res.Reason = retrieval.ReasonError
	}
	return res, err
}

// complete tells whether res is complete, final and of the generations that q names: a base may
// have changed between the look-up and the search.
func complete(res retrieval.Result, q retrieval.Query) bool {
	return !res.Partial && !res.Provisional && res.Degraded == "" && !res.Reason.Failed() && slices.Equal(res.Bases, q.Bases)
}

// readTexts completes a result that was kept without the texts that an engine has. A document
// that the generation does not have makes the value a wrong one.
func (r *Retriever) readTexts(ctx context.Context, q retrieval.Query, res *retrieval.Result) error {
	sources, fallen := keptOf(res)
	hits := slices.Concat(sources, fallen)
	if len(hits) == 0 {
		return nil
	}
	texts, err := r.Locate(ctx, q, hits)
	switch {
	case errors.Is(err, retrieval.ErrNoHit):
		return MismatchBody
	case err != nil:
		return err
	case r.cache.Kind == Candidates: // texts are read of what is selected
		res.Texts = texts
		return nil
	}
	if err := texts.Read(sources); err != nil {
		return err
	}
	res.Fallen, err = res.Fallen.Named(texts, fallen)
	return err
}

// keptOf returns the sources of res, and of what fell, whose texts an engine has.
func keptOf(res *retrieval.Result) (sources, fallen []*retrieval.Source) {
	for i := range res.Sources {
		if s := &res.Sources[i]; s.At.Kept {
			sources = append(sources, s)
		}
	}
	for x := range res.Fallen.All() {
		if x.At.Kept {
			fallen = append(fallen, new(x.Source()))
		}
	}
	return sources, fallen
}

// Locate returns the texts of hits, if they have any that the retriever behind the cache keeps.
func (r *Retriever) Locate(ctx context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	behind, ok := r.next.(retrieval.Locator)
	if !ok {
		return nil, fmt.Errorf("texts are not kept here: %w", retrieval.ErrNoHit)
	}
	return behind.Locate(ctx, q, hits)
}
