package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"sidenote/retrieval"
)

// What the zero values of a Retriever's fields mean.
const (
	DefaultTTL           = 10 * time.Minute
	DefaultEmptyTTL      = 30 * time.Second
	DefaultJitter        = 0.1
	DefaultFlightTimeout = 10 * time.Second
	DefaultStoreTimeout  = 50 * time.Millisecond
)

// An Event is something that happened in a Retriever, for metrics.
type Event struct {
	Kind     Kind
	Result   Outcome
	Mismatch Mismatch // of a Mismatched value: what is wrong with it
	Err      error    // of StoreError and SetError
}

// Outcome is what became of a look-up, or of a value to be kept. It is a closed
// list and a metric label. Every query counts as exactly one of the first five.
type Outcome string

// The outcomes.
const (
	Hit        Outcome = "hit"
	Miss       Outcome = "miss"
	Bypass     Outcome = "bypass"      // a base has no generation yet: nothing to hold a value by
	Mismatched Outcome = "mismatch"    // a miss: what the store gave is not this key's value
	GetError   Outcome = "get_error"   // a miss: the store failed or was too slow
	SetError   Outcome = "store_error" // an answer that could not be kept
)

// A Retriever answers from a Store what Next has answered before. It stands in
// front of one base (Candidates) or of the whole pipeline (Selected).
//
// A Store that fails, hangs, forgets or mixes things up costs time, never an
// answer: everything but an intact value of the very key is a miss. Answers are
// kept if they are whole and if the generations searched are those asked.
//
// Queries with one key at one time are one search. It outlives the caller that
// began it: each caller leaves when its context ends, with an error that wraps
// retrieval.ErrUnavailable, and the late answer still reaches the store.
//
// Next and Store are required; other zero fields mean the defaults. The fields
// do not change once it is in use.
type Retriever struct {
	Next  retrieval.Retriever
	Store Store
	Kind  Kind

	TTL      time.Duration // of answers with sources
	EmptyTTL time.Duration // of answers without
	Jitter   float64       // part of either by which it varies up or down, so that entries do not expire together; negative is none

	FlightTimeout time.Duration // of a search, whoever still waits for it
	StoreTimeout  time.Duration // of all calls of the store for one query; negative is none, for a Store that never waits

	Observe func(Event) // called concurrently; nil is nobody

	flights singleflight.Group
	recent  recent
}

// Retrieve answers q from the store or asks Next.
func (r *Retriever) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if !keyed(q) {
		r.observe(Event{Result: Bypass})
		return r.Next.Retrieve(ctx, q)
	}
	start := time.Now()
	key := NewKey(r.Kind, q)
	name := key.String()
	res, event := r.lookUp(ctx, key, name)
	r.observe(event)
	if event.Result == Hit {
		res.Cache, res.Took = retrieval.CacheHit, time.Since(start)
		return res, nil
	}
	if ctx.Err() != nil { // nobody waits for a search
		return r.left(ctx)
	}
	patience := or(r.StoreTimeout, DefaultStoreTimeout)
	if patience > 0 {
		patience = max(0, patience-time.Since(start))
	}
	if event.Result == GetError {
		patience = 0 // the store is unwell: don't wait for it twice
	}
	flight := r.flights.DoChan(name, func() (any, error) { return r.fly(ctx, q, key, name, patience), nil })
	return r.wait(ctx, flight)
}

// keyed tells whether the state of everything that q asks is known.
func keyed(q retrieval.Query) bool {
	return len(q.Bases) > 0 && !slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" })
}

// lookUp asks the store. The event says how that went.
func (r *Retriever) lookUp(ctx context.Context, key Key, name string) (retrieval.Result, Event) {
	value, err := r.get(ctx, name)
	switch {
	case err != nil && ctx.Err() != nil: // the caller's time was up, which is not the store's fault
		return retrieval.Result{}, Event{Result: Miss}
	case err != nil:
		return retrieval.Result{}, Event{Result: GetError, Err: fmt.Errorf("cache get: %w", err)}
	case value == nil:
		return retrieval.Result{}, Event{Result: Miss}
	}
	res, err := r.recent.decode(key, value)
	if mismatch := Mismatch(""); errors.As(err, &mismatch) {
		return retrieval.Result{}, Event{Result: Mismatched, Mismatch: mismatch}
	}
	return res, Event{Result: Hit}
}

// A landing is what a flight brings home.
type landing struct {
	res retrieval.Result
	err error
}

// fly searches for everybody who asks for key, and keeps the answer if the
// store takes it within patience.
func (r *Retriever) fly(ctx context.Context, q retrieval.Query, key Key, name string, patience time.Duration) landing {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), or(r.FlightTimeout, DefaultFlightTimeout))
	defer cancel()
	// An engine that ignores its deadline must not make the next caller wait too.
	stop := context.AfterFunc(ctx, func() { r.flights.Forget(name) })
	defer stop()
	res, err := r.search(ctx, q)
	res.Cache = retrieval.CacheMiss
	if err != nil || patience == 0 || !whole(res, q) {
		return landing{res, err}
	}
	ttl := or(r.TTL, DefaultTTL)
	if len(res.Sources) == 0 {
		ttl = or(r.EmptyTTL, DefaultEmptyTTL)
	}
	if value := Encode(key, res); value != nil {
		ctx, cancel := bounded(ctx, patience)
		defer cancel()
		if err := r.set(ctx, name, value, r.vary(ttl)); err != nil {
			r.observe(Event{Result: SetError, Err: fmt.Errorf("cache set: %w", err)})
		}
	}
	return landing{res, nil}
}

// search asks Next. A panic in there is an error like any other: in a flight it
// would take the process along.
func (r *Retriever) search(ctx context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	defer func() {
		if err == nil {
			return
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
	}()
	defer recovered(&err)
	return r.Next.Retrieve(ctx, q)
}

// get asks the store within its time.
func (r *Retriever) get(ctx context.Context, name string) (value []byte, err error) {
	defer recovered(&err)
	ctx, cancel := bounded(ctx, or(r.StoreTimeout, DefaultStoreTimeout))
	defer cancel()
	return r.Store.Get(ctx, name)
}

// set hands value to the store.
func (r *Retriever) set(ctx context.Context, name string, value []byte, ttl time.Duration) (err error) {
	defer recovered(&err)
	return r.Store.Set(ctx, name, value, ttl)
}

// recovered is to be deferred: it makes a panic the error.
func recovered(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("panic: %v", broken)
	}
}

// whole tells whether res answers all of q, in the state that q names: a base
// may have moved on between the look-up and the search.
func whole(res retrieval.Result, q retrieval.Query) bool {
	return !res.Partial && !res.Reason.Failed() && slices.Equal(res.Bases, q.Bases)
}

// vary moves ttl at random within Jitter.
func (r *Retriever) vary(ttl time.Duration) time.Duration {
	jitter := max(0, or(r.Jitter, DefaultJitter))
	return ttl + time.Duration(jitter*(2*rand.Float64()-1)*float64(ttl))
}

// wait returns what a flight brings, or leaves it when ctx ends.
func (r *Retriever) wait(ctx context.Context, flight <-chan singleflight.Result) (retrieval.Result, error) {
	var landed singleflight.Result
	select {
	case landed = <-flight:
	case <-ctx.Done():
		select {
		case landed = <-flight: // both were ready
		default:
			return r.left(ctx)
		}
	}
	l := landed.Val.(landing)
	return l.res, l.err
}

// left is the answer to a caller that cannot wait any longer.
func (r *Retriever) left(ctx context.Context) (retrieval.Result, error) {
	return retrieval.Result{Reason: retrieval.ReasonTimeout, Partial: true, Cache: retrieval.CacheMiss},
		fmt.Errorf("%s: no answer in time: %w: %w", r.Kind, retrieval.ErrUnavailable, context.Cause(ctx))
}

func (r *Retriever) observe(e Event) {
	if r.Observe != nil {
		e.Kind = r.Kind
		r.Observe(e)
	}
}

// bounded limits ctx to d if that is positive.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// or returns v, or what its zero value means.
func or[T comparable](v, zero T) T {
	if v == *new(T) {
		return zero
	}
	return v
}
