package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sidenote/retrieval"
)

// A Tier is a store that a Retriever looks into.
type Tier struct {
	Name  string // a metric label: "memory", "redis"
	Store Store

	TTL      time.Duration // lifetime of results with sources
	EmptyTTL time.Duration // lifetime of results without sources

	// Wait is how long a request may wait for this tier, all its look-ups together; 0
	// is for a store that never blocks. Only look-ups wait: put a store with slow
	// writes behind a Behind.
	Wait time.Duration
}

// ErrSkipped is the error of a Store that did not try the call because it knows that it
// would fail. It does not count as a failure.
var ErrSkipped = errors.New("not tried")

// An entry is the state of one query's look-ups in the tiers.
type entry struct {
	key        Key
	name       string       // the key in the form of stores
	known      *recentEntry // the remembered answer of the nearest tier; nil if there is none
	value      []byte       // as a tier returned it, or as it is to be kept
	unwritable uint         // a bit for each tier that this entry must not be written to
}

// lookUp asks one tier and returns the outcome. After a Hit, e holds the value.
func (r *Retriever) lookUp(ctx context.Context, at int, e *entry) (retrieval.Result, Outcome) {
	tier := &r.Tiers[at]
	event := Event{Tier: tier.Name}
	value, err := tier.get(ctx, e.name)
	var res retrieval.Result
	if err == nil && value != nil {
		var known bool
		if res, known = e.known.decodes(value); !known {
			res, err = Decode(e.key, value)
		}
	}
	switch {
	case err == nil && value == nil:
		event.Result = Miss
	case err == nil:
		event.Result, e.value = Hit, value
	case mismatchOf(err) != "":
		event.Result, event.Mismatch = Mismatched, mismatchOf(err)
	case errors.Is(err, ErrSkipped):
		event.Result = Skipped
	case ctx.Err() != nil: // the request ran out of time, not the store
		event.Result = Miss
	default:
		event.Result, event.Err = GetError, fmt.Errorf("cache get: %w", err)
	}
	// If it is not known what the key holds, it could be somebody else's data, so it is
	// not overwritten.
	if err != nil && (event.Result != Mismatched || event.Mismatch == MismatchType) {
		e.unwritable |= 1 << at
	}
	r.observe(event)
	return res, event.Result
}

// mismatchOf returns the Mismatch that err is, "" if it is none.
func mismatchOf(err error) Mismatch {
	m, _ := errors.AsType[Mismatch](err)
	return m
}

// keep writes e, whose result is res, to the tiers before end.
func (r *Retriever) keep(ctx context.Context, end int, e entry, res retrieval.Result) {
	for at := range r.Tiers[:end] {
		tier := &r.Tiers[at]
		if e.unwritable&(1<<at) != 0 {
			continue
		}
		ttl := or(tier.TTL, DefaultTTL)
		if len(res.Sources) == 0 {
			ttl = or(tier.EmptyTTL, DefaultEmptyTTL)
		}
		if err := tier.set(ctx, e.name, e.value, r.vary(ttl)); err != nil && !errors.Is(err, ErrSkipped) {
			r.observe(Event{Tier: tier.Name, Result: SetError, Err: fmt.Errorf("cache set: %w", err)})
		}
	}
}

// vary changes ttl at random by up to Jitter.
func (r *Retriever) vary(ttl time.Duration) time.Duration {
	jitter := max(0, or(r.Jitter, DefaultJitter))
	return ttl + time.Duration(jitter*(2*rand.Float64()-1)*float64(ttl))
}

// get asks the store, within the time that the request may still wait.
func (t *Tier) get(ctx context.Context, name string) (value []byte, err error) {
	defer recovered(&err)
	if t.Wait > 0 {
		var done func()
		if ctx, done, err = spend(ctx, t.Wait); err != nil {
			return nil, err
		}
		defer done()
	}
	return t.Store.Get(ctx, name)
}

func (t *Tier) set(ctx context.Context, name string, value []byte, ttl time.Duration) (err error) {
	defer recovered(&err)
	return t.Store.Set(ctx, name, value, ttl)
}
