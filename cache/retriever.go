package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sidenote/retrieval"
)

// A Retriever is a cache in front of one base, or of several that are searched together
// (Candidates), or of the whole pipeline (Selected). A result is stored if it is complete, final
// and of the requested generations. Without a far tier, candidates that are found without waiting
// (retrieval.ImmediateRetriever) are not stored, since finding them again is faster.
//
// When its context ends, a caller returns with an error that wraps retrieval.ErrUnavailable.
type Retriever struct {
	next  retrieval.Retriever
	cache Tiered[retrieval.Result]
}

// NewRetriever returns a cache in front of next. observe may be nil.
func NewRetriever(next retrieval.Retriever, kind Kind, tiers []Tier, observe func(Event)) *Retriever {
	return &Retriever{next, Tiered[retrieval.Result]{
		Kind: kind, Tiers: tiers, Observe: observe,
		Encode: Encode, Decode: Decode, Empty: func(res retrieval.Result) bool { return len(res.Sources) == 0 }, Size: memoryOf,
	}}
}

// memoryOf returns the approximate memory of a result. It is negative for results that reference
// an engine's texts: these may be files that are no longer in use, so such results must not be
// cached decoded.
func memoryOf(res retrieval.Result) int {
	if res.Texts != nil {
		return -1
	}
	const perSource = 256
	n := perSource*len(res.Sources) + res.Excluded.Bytes()
	for i := range res.Sources {
		s := &res.Sources[i]
		n += len(s.Text) + len(s.Before) + len(s.After)
	}
	return n
}

// Retrieve answers q from a tier, else from the next retriever.
func (r *Retriever) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	var res retrieval.Result
	err := r.Find(ctx, &q, &res)
	return res, err
}

// Find is like Retrieve but writes to res. What cannot be cached is passed to the next retriever.
func (r *Retriever) Find(ctx context.Context, q *retrieval.Query, res *retrieval.Result) error {
	if r.bypasses(q) {
		r.cache.observe(Event{Result: Bypass})
		return retrieval.Find(ctx, r.next, q, res)
	}
	start := time.Now()
	var written [writtenRoom]byte
	var l Lookup[retrieval.Result]
	id := appendQuery(written[:0], r.cache.Kind, q)
	kept, hit := r.cache.Decoded(ctx, q.Tenant, id, &l)
	if hit {
		*res = kept
		res.Cache, res.CacheKey, res.Took = retrieval.CacheHit, l.key.short(), time.Since(start)
		return nil
	}
	if l.value == nil && l.err == nil && ctx.Err() == nil && r.cache.alone() && retrieval.AnswersAtOnce(r.next, q) {
		return r.findNow(ctx, q, res, &l)
	}
	return r.far(ctx, *q, res, id, l)
}

// bypasses reports whether q is not cached at all.
func (r *Retriever) bypasses(q *retrieval.Query) bool {
	return !cacheable(q) || r.cache.Kind == Candidates && r.cache.alone() && retrieval.AnswersAtOnce(r.next, q)
}

// AnswersAtOnce reports whether the next retriever answers q without waiting.
func (r *Retriever) AnswersAtOnce(q *retrieval.Query) bool { return retrieval.AnswersAtOnce(r.next, q) }

// cacheable reports whether the generation of every base of q is known, so that its result can be
// cached.
func cacheable(q *retrieval.Query) bool {
	return len(q.Bases) > 0 && !slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" })
}

// findNow calls the next retriever directly, because its answer is faster than sharing a flight.
func (r *Retriever) findNow(ctx context.Context, q *retrieval.Query, res *retrieval.Result, l *Lookup[retrieval.Result]) (err error) {
	r.cache.observe(Event{Tier: r.cache.Tiers[0].Name, Result: Miss})
	asked, answered := q.Bases, false
	func() {
		defer recovered(&err) // a panic would end the process
		if err = retrieval.Find(ctx, r.next, q, res); err == nil && complete(res, asked) {
			r.cache.keepFound(ctx, l, *res)
		}
		answered = true
	}()
	if !answered { // res may hold half an answer
		*res = retrieval.Result{}
	}
	res.Cache, res.CacheKey = retrieval.CacheMiss, l.key.short()
	return failed(res, err)
}

// far handles a query after a miss of Decoded. It is a separate function so that q and l move to
// the heap here, and not in Find, where hits are answered.
func (r *Retriever) far(ctx context.Context, q retrieval.Query, res *retrieval.Result, id []byte, l Lookup[retrieval.Result]) error {
	f, landed := r.cache.Load(ctx, id, l, Search[retrieval.Result]{
		Immediate: retrieval.AnswersAtOnce(r.next, &q),
		Complete:  func(ctx context.Context, res *retrieval.Result) error { return r.readTexts(ctx, q, res) },
		Find: func(ctx context.Context) (retrieval.Result, bool, error) {
			res, err := r.next.Retrieve(ctx, q)
			return res, complete(&res, q.Bases), err
		},
	})
	if !landed {
		*res = retrieval.Result{Reason: retrieval.ReasonTimeout, Partial: true, Cache: retrieval.CacheMiss, CacheKey: l.key.short()}
		return fmt.Errorf("%s: no answer in time: %w: %w", r.cache.Kind, retrieval.ErrUnavailable, context.Cause(ctx))
	}
	*res = f.Value
	res.Cache, res.CacheKey = retrieval.CacheMiss, l.key.short()
	if f.Hit {
		res.Cache, res.Took = retrieval.CacheHit, f.Took
	}
	return failed(res, f.Err)
}

// failed sets the reason of res to that of err, and makes err wrap retrieval.ErrUnavailable. If
// err is nil, it does nothing.
func failed(res *retrieval.Result, err error) error {
	if err == nil {
		return nil
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
	return err
}

// complete reports whether res is complete, final and of the requested generations: a base may
// have changed between lookup and search.
func complete(res *retrieval.Result, asked []retrieval.Ref) bool {
	return !res.Partial && !res.Provisional && res.Degraded == "" && !res.Reason.Failed() && slices.Equal(res.Bases, asked)
}

// readTexts adds the texts that an engine keeps to a stored result. If the generation does not
// have a document, the value is a Mismatch.
func (r *Retriever) readTexts(ctx context.Context, q retrieval.Query, res *retrieval.Result) error {
	all, n := keptOf(res)
	if len(all) == 0 {
		return nil
	}
	texts, err := r.Locate(ctx, q, all)
	switch {
	case errors.Is(err, retrieval.ErrNoHit):
		return MismatchBody
	case err != nil:
		return err
	case r.cache.Kind == Candidates: // texts are read only for what is selected
		res.Texts = texts
		return nil
	}
	if err := texts.Read(all[:n]); err != nil {
		return err
	}
	res.Excluded, err = res.Excluded.WithNames(func(add func(retrieval.Label)) error { return label(texts, q.Bases, all[n:], add) })
	return err
}

// keptOf returns the parts of res whose text is in an engine: n sources, then excluded candidates.
func keptOf(res *retrieval.Result) (all []*retrieval.Source, n int) {
	for i := range res.Sources {
		if s := &res.Sources[i]; s.At.Kept {
			all = append(all, s)
		}
	}
	n = len(all)
	for x := range res.Excluded.All() {
		if x.At.Kept {
			all = append(all, new(retrieval.ExcludedSource(&x)))
		}
	}
	return all, n
}

// label calls add with the labels of located sources.
func label(texts retrieval.Texts, bases []retrieval.Ref, of []*retrieval.Source, add func(retrieval.Label)) error {
	if len(of) == 0 {
		return nil
	}
	hits, pointers := make([]retrieval.Hit, len(of)), make([]*retrieval.Hit, len(of))
	for i, src := range of {
		hits[i] = retrieval.Hit{At: src.At, Base: slices.IndexFunc(bases, func(ref retrieval.Ref) bool { return ref.Knowledge == src.Knowledge })}
		pointers[i] = &hits[i]
	}
	if err := texts.Mark(hits); err != nil {
		return err
	}
	return texts.Label(pointers, add)
}

// Locate returns the texts of hits, if the next retriever keeps texts.
func (r *Retriever) Locate(ctx context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	behind, ok := r.next.(retrieval.Locator)
	if !ok {
		return nil, fmt.Errorf("texts are not kept here: %w", retrieval.ErrNoHit)
	}
	return behind.Locate(ctx, q, hits)
}
