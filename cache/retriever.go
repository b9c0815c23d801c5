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

// Defaults of the fields of Retriever and Tier.
const (
	DefaultTTL           = 10 * time.Minute
	DefaultEmptyTTL      = 30 * time.Second
	DefaultJitter        = 0.1
	DefaultFlightTimeout = 10 * time.Second
)

// An Event is something that a Retriever did, for metrics.
type Event struct {
	Kind     Kind
	Tier     string // name of the tier; "" for a Bypass
	Result   Outcome
	Mismatch Mismatch // what is wrong with a Mismatched value
	Err      error    // the error of a GetError or SetError
}

// Outcome is the result of a look-up in a tier, or of writing a value to it. It is a
// closed list and a metric label. A query counts once, with one of the first six, in
// each tier that was asked.
type Outcome string

// The outcomes.
const (
	Hit        Outcome = "hit"
	Miss       Outcome = "miss"
	Bypass     Outcome = "bypass"      // not cached, because a base has no generation yet and the key would be incomplete
	Mismatched Outcome = "mismatch"    // a miss: the store returned something else than this key's value
	GetError   Outcome = "get_error"   // a miss: the store failed or was too slow
	Skipped    Outcome = "skipped"     // a miss: not asked, because no time was left or the store is known to be down
	SetError   Outcome = "store_error" // a result that could not be written
)

// A Retriever answers queries from its tiers, or else by Next, whose results it keeps.
// It stands in front of one base (Candidates) or of the whole pipeline (Selected).
//
// A tier that fails, hangs, forgets or mixes things up costs time, never an answer:
// everything but an intact value of the very key is a miss. A result is kept if it is
// complete and of the generations that were asked for.
//
// Concurrent queries with one key share one flight: one look-up in the far tiers and,
// if that misses, one search. A flight goes on when the caller that began it leaves.
// Each caller leaves when its context ends, with an error that wraps
// retrieval.ErrUnavailable; the late result is still written to the tiers.
//
// Next and Tiers are required; other zero fields mean the defaults. The fields do not
// change once it is in use.
type Retriever struct {
	Next  retrieval.Retriever
	Tiers []Tier // nearest first; a value found in a far one is written to the nearer ones
	Kind  Kind

	Jitter        float64       // part of a TTL by which it varies at random, so that entries do not expire together; negative is none
	FlightTimeout time.Duration // time limit of a flight, however long its callers wait

	Observe func(Event) // called concurrently; may be nil

	flights singleflight.Group
	recent  recent
}

// Retrieve answers q from a tier, else from Next.
func (r *Retriever) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if !cacheable(q) {
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

// join waits for the flight of a query that the nearest tier did not answer. It is a
// function of its own so that q and e move to the heap here, and not in Retrieve, where
// hits are answered.
func (r *Retriever) join(ctx context.Context, q retrieval.Query, e entry) (retrieval.Result, error) {
	if ctx.Err() != nil { // the caller has left, so no search is started
		return r.timedOut(ctx)
	}
	e.known = nil
	return r.wait(ctx, r.flights.DoChan(e.name, func() (any, error) { return r.runFlight(ctx, q, e), nil }))
}

// cacheable tells whether the generation of every base of q is known, so that its result
// can be cached.
func cacheable(q retrieval.Query) bool {
	return len(q.Bases) > 0 && !slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" })
}

// A flightResult is the result of a flight.
type flightResult struct {
	res retrieval.Result
	err error
}

// runFlight answers all callers that wait for e: from a far tier, or by a search whose result
// it writes to the tiers.
func (r *Retriever) runFlight(ctx context.Context, q retrieval.Query, e entry) flightResult {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), or(r.FlightTimeout, DefaultFlightTimeout))
	defer cancel()
	// If the search ignores its deadline, later callers start a new flight and do not
	// wait for this one.
	stop := context.AfterFunc(ctx, func() { r.flights.Forget(e.name) })
	defer stop()
	for at := 1; at < len(r.Tiers); at++ {
		ctx = withWaitBudget(ctx, r.Tiers[at].Wait)
		if res, far := r.lookUp(ctx, at, &e); far == Hit {
			r.keep(ctx, at, e, res)
			res.Cache, res.Took = retrieval.CacheHit, time.Since(start)
			return flightResult{res, nil}
		}
	}
	res, err := r.search(ctx, q)
	res.Cache = retrieval.CacheMiss
	if err == nil && complete(res, q) {
		if e.value = Encode(e.key, res); e.value != nil {
			r.keep(ctx, len(r.Tiers), e, res)
		}
	}
	return flightResult{res, err}
}

// search asks Next. A panic becomes an error: in the goroutine of a flight it would end
// the process.
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

// recovered, when deferred, turns a panic into the error.
func recovered(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("panic: %v", broken)
	}
}

// complete tells whether res is complete and of the generations that q names: a base may
// have changed between the look-up and the search.
func complete(res retrieval.Result, q retrieval.Query) bool {
	return !res.Partial && !res.Reason.Failed() && slices.Equal(res.Bases, q.Bases)
}

// wait returns the result of a flight, or the timeout result when ctx ends first.
func (r *Retriever) wait(ctx context.Context, flight <-chan singleflight.Result) (retrieval.Result, error) {
	var landed singleflight.Result
	select {
	case landed = <-flight:
	case <-ctx.Done():
		select {
		case landed = <-flight: // both were ready
		default:
			return r.timedOut(ctx)
		}
	}
	l := landed.Val.(flightResult)
	return l.res, l.err
}

// timedOut returns the result for a caller whose time is up.
func (r *Retriever) timedOut(ctx context.Context) (retrieval.Result, error) {
	return retrieval.Result{Reason: retrieval.ReasonTimeout, Partial: true, Cache: retrieval.CacheMiss},
		fmt.Errorf("%s: no answer in time: %w: %w", r.Kind, retrieval.ErrUnavailable, context.Cause(ctx))
}

func (r *Retriever) observe(e Event) {
	if r.Observe != nil {
		e.Kind = r.Kind
		r.Observe(e)
	}
}

// or returns v, or zero if v is the zero value.
func or[T comparable](v, zero T) T {
	if v == *new(T) {
		return zero
	}
	return v
}
