package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"sidenote/retrieval"
)

// What the zero values of a Retriever's and a Tier's fields mean.
const (
	DefaultTTL           = 10 * time.Minute
	DefaultEmptyTTL      = 30 * time.Second
	DefaultJitter        = 0.1
	DefaultFlightTimeout = 10 * time.Second
)

// An Event is something that happened in a Retriever, for metrics.
type Event struct {
	Kind     Kind
	Tier     string // name of the tier; "" for a Bypass
	Result   Outcome
	Mismatch Mismatch // of a Mismatched value: what is wrong with it
	Err      error    // of GetError and SetError
}

// Outcome is what became of a look-up in a tier, or of a value to be kept there.
// It is a closed list and a metric label. A query counts once, with one of the
// first six, in each tier that was looked into.
type Outcome string

// The outcomes.
const (
	Hit        Outcome = "hit"
	Miss       Outcome = "miss"
	Bypass     Outcome = "bypass"      // a base has no generation yet: nothing to hold a value by
	Mismatched Outcome = "mismatch"    // a miss: what the store gave is not this key's value
	GetError   Outcome = "get_error"   // a miss: the store failed or was too slow
	Skipped    Outcome = "skipped"     // a miss: not asked, for want of time or because it is known to be down
	SetError   Outcome = "store_error" // an answer that could not be kept
)

// A Retriever answers from its tiers what Next has answered before. It stands in
// front of one base (Candidates) or of the whole pipeline (Selected).
//
// A tier that fails, hangs, forgets or mixes things up costs time, never an
// answer: everything but an intact value of the very key is a miss. Answers are
// kept if they are whole and if the generations searched are those asked.
//
// Queries with one key at one time are one flight: one look-up in the far tiers
// and, if need be, one search. It outlives the caller that began it: each caller
// leaves when its context ends, with an error that wraps
// retrieval.ErrUnavailable, and the late answer still reaches the tiers.
//
// Next and Tiers are required; other zero fields mean the defaults. The fields
// do not change once it is in use.
type Retriever struct {
	Next  retrieval.Retriever
	Tiers []Tier // nearest first; what a far one gives is kept in the nearer ones
	Kind  Kind

	Jitter        float64       // part of a TTL by which it varies up or down, so that entries do not expire together; negative is none
	FlightTimeout time.Duration // of a flight, whoever still waits for it

	Observe func(Event) // called concurrently; nil is nobody

	flights singleflight.Group
	recent  recent
}

// Retrieve answers q from a tier or asks Next.
func (r *Retriever) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if !keyed(q) {
		r.observe(Event{Result: Bypass})
		return r.Next.Retrieve(ctx, q)
	}
	start := time.Now()
	var room [writtenRoom]byte
	written := appendQuery(room[:0], r.Kind, &q)
	e := entry{known: r.recent.get(written)}
	if e.known != nil {
		e.key, e.name = e.known.key, e.known.name
	} else {
		e.key = writtenKey(r.Kind, q.Tenant, written)
		e.name = e.key.String()
	}
	res, near := r.lookUp(ctx, 0, &e)
	if near == Hit {
		if e.known == nil || !same(e.known.value, e.value) {
			r.recent.put(written, &e, res)
		}
		res.Cache, res.Took = retrieval.CacheHit, time.Since(start)
		return res, nil
	}
	return r.join(ctx, q, e)
}

// join waits for the flight of a query that the nearest tier did not answer. In here q
// and e may outlive the call, so in Retrieve they need not.
func (r *Retriever) join(ctx context.Context, q retrieval.Query, e entry) (retrieval.Result, error) {
	if ctx.Err() != nil { // nobody waits for a search
		return r.left(ctx)
	}
	e.known = nil
	return r.wait(ctx, r.flights.DoChan(e.name, func() (any, error) { return r.fly(ctx, q, e), nil }))
}

// keyed tells whether the state of everything that q asks is known.
func keyed(q retrieval.Query) bool {
	return len(q.Bases) > 0 && !slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" })
}

// A landing is what a flight brings home.
type landing struct {
	res retrieval.Result
	err error
}

// fly finds an answer for everybody who asks for e: in a far tier, or by a
// search whose answer the tiers then keep.
func (r *Retriever) fly(ctx context.Context, q retrieval.Query, e entry) landing {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), or(r.FlightTimeout, DefaultFlightTimeout))
	defer cancel()
	// An engine that ignores its deadline must not make the next caller wait too.
	stop := context.AfterFunc(ctx, func() { r.flights.Forget(e.name) })
	defer stop()
	for at := 1; at < len(r.Tiers); at++ {
		ctx = withPatience(ctx, r.Tiers[at].Wait)
		if res, far := r.lookUp(ctx, at, &e); far == Hit {
			r.keep(ctx, at, e, res)
			res.Cache, res.Took = retrieval.CacheHit, time.Since(start)
			return landing{res, nil}
		}
	}
	res, err := r.search(ctx, q)
	res.Cache = retrieval.CacheMiss
	if err == nil && whole(res, q) {
		if e.value = Encode(e.key, res); e.value != nil {
			r.keep(ctx, len(r.Tiers), e, res)
		}
	}
	return landing{res, err}
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

// or returns v, or what its zero value means.
func or[T comparable](v, zero T) T {
	if v == *new(T) {
		return zero
	}
	return v
}
