package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
)

// flightTimeout is the time limit of a flight, however long its callers wait.
const flightTimeout = 10 * time.Second

// An Event is something that a cache did, for metrics.
type Event struct {
	Kind     Kind
	Tier     string // name of the tier; "" for a Bypass
	Result   Outcome
	Mismatch Mismatch // what is wrong with a Mismatched value
	Err      error    // the error of a GetError or SetError
}

// Outcome is the result of a look-up in a tier, or of writing a value to it. It is a
// closed list and a metric label. A request counts once, with one of the first six, in
// each tier that was asked.
type Outcome string

// The outcomes.
const (
	Hit        Outcome = "hit"
	Miss       Outcome = "miss"
	Bypass     Outcome = "bypass"      // not cached: a base has no generation yet, so that the key would be incomplete, or the search takes less time than the cache
	Mismatched Outcome = "mismatch"    // a miss: the store returned something else than this key's value
	GetError   Outcome = "get_error"   // a miss: the store failed or was too slow
	Skipped    Outcome = "skipped"     // a miss: not asked, because no time was left or the store is known to be down
	SetError   Outcome = "store_error" // a value that could not be written
)

// An Of keeps values of one type in tiers.
//
// A tier that fails, hangs, forgets or mixes things up costs time, never an answer:
// everything but an intact value of the very key is a miss.
//
// Concurrent callers with one key share one flight: one look-up in the far tiers and,
// if that misses, one search. A flight goes on when the caller that began it leaves;
// its late value is still written to the tiers.
//
// Only Observe, Size and Left may be nil, and Empty where there is Left. The fields do not change
// once it is in use.
type Of[V any] struct {
	Kind  Kind
	Tiers []Tier // nearest first; a value found in a far one is written to the nearer ones

	Encode func(Key, V) []byte          // the value in its sealed form (see Seal); nil if it is too large to keep
	Decode func(Key, []byte) (V, error) // what Encode was given; anything else is a Mismatch
	Empty  func(V) bool                 // whether a value is kept for the EmptyTTL of a tier
	// Left is how long a value may still be kept, whatever its tiers say; where that is nothing, it is
	// a miss. nil: the tiers decide.
	Left func(V) time.Duration
	// Size is about the memory that a value takes as Far returns it, to remember it beside the
	// nearest tier; negative: not to be remembered.
	Size func(V) int

	Observe func(Event) // called concurrently

	flights singleflight.Group
	recent  answers[V]
}

// A Lookup is the state of one key's look-ups in the tiers.
type Lookup[V any] struct {
	key        Key
	name       string     // the key in the form of stores
	known      *answer[V] // the remembered answer of the nearest tier; nil if there is none
	value      []byte     // as a tier returned it, or as it is to be kept
	err        error      // of the nearest tier
	unwritable uint       // a bit for each tier that the value must not be written to
}

// A Search answers what the nearest tier did not.
type Search[V any] struct {
	// Complete reads what Encode leaves out, after Decode; nil if that is nothing. Its error is
	// a Mismatch where the value is wrong, else one that makes it a miss.
	Complete func(context.Context, *V) error
	// Find finds the value, which is kept if it is whole.
	Find func(context.Context) (v V, whole bool, err error)
	// Prompt says that Find does not wait for anything. Where there is no far tier either, a
	// caller then finds the value itself: to share a flight would take longer.
	Prompt bool
}

// Near asks the nearest tier, and answers if that has what it had lately. The digest of the key
// is made of id, which has the schema, the kind and all that the value depends on. Else l is
// for Far.
func (c *Of[V]) Near(ctx context.Context, tenant string, id []byte, l *Lookup[V]) (v V, hit bool) {
	l.known = c.recent.get(id)
	if l.known != nil {
		l.key, l.name = l.known.key, l.known.name
	} else {
		l.key = digestKey(c.Kind, tenant, id)
		l.name = l.key.String()
	}
	l.value, l.err = c.Tiers[0].get(ctx, l.name)
	if l.known == nil || l.err != nil || !same(l.known.value, l.value) {
		return v, false
	}
	c.observe(Event{Tier: c.Tiers[0].Name, Result: Hit})
	return l.known.decoded, true
}

// Found is the result of a look-up in the tiers, or of a flight.
type Found[V any] struct {
	Value V
	Hit   bool          // a tier had it
	Took  time.Duration // to find it there
	Err   error         // of the search, which is an error too if it panics
}

// Far answers what Near did not: by what the nearest tier returned, from a far tier, or by
// s.Find. It returns false if ctx ends first. id is that of Near.
func (c *Of[V]) Far(ctx context.Context, id []byte, l Lookup[V], s Search[V]) (Found[V], bool) {
	start := time.Now()
	value, err := l.value, l.err
	l.known, l.value, l.err = nil, nil, nil
	if v, outcome := c.judge(ctx, 0, &l, value, err, s.Complete); outcome == Hit {
		c.remember(id, &l, v)
		return Found[V]{Value: v, Hit: true, Took: time.Since(start)}, true
	}
	if ctx.Err() != nil { // the caller has left, so no search is started
		return Found[V]{}, false
	}
	if s.Prompt && c.alone() {
		return c.find(ctx, l, s), true
	}
	flight := c.flights.DoChan(l.name, func() (any, error) { return c.fly(ctx, l, s), nil })
	var landed singleflight.Result
	select {
	case landed = <-flight:
	case <-ctx.Done():
		select {
		case landed = <-flight: // both were ready
		default:
			return Found[V]{}, false
		}
	}
	return landed.Val.(Found[V]), true
}

// Put keeps v in all tiers, in place of what they have under the same id: that of Near. It
// returns when it is written; a tier that fails does not have it.
func (c *Of[V]) Put(ctx context.Context, tenant string, id []byte, v V) {
	l := Lookup[V]{key: digestKey(c.Kind, tenant, id)}
	l.name = l.key.String()
	if l.value = c.Encode(l.key, v); l.value != nil {
		c.keep(ctx, len(c.Tiers), l, v)
	}
}

var errNotKept = errors.New("not kept")

// Kept returns what a tier has under id, which is that of Near. Where none has it in time, nothing
// is searched.
func (c *Of[V]) Kept(ctx context.Context, tenant string, id []byte) (v V, ok bool) {
	var l Lookup[V]
	if v, hit := c.Near(ctx, tenant, id, &l); hit {
		return v, true
	}
	none := func(context.Context) (v V, whole bool, err error) { return v, false, errNotKept }
	f, landed := c.Far(ctx, id, l, Search[V]{Prompt: true, Find: none})
	return f.Value, landed && f.Hit
}

// remember keeps a value beside the nearest tier, as long as that has it.
func (c *Of[V]) remember(id []byte, l *Lookup[V], v V) {
	size := len(l.value)
	if c.Size != nil {
		size = c.Size(v)
	}
	if size >= 0 && len(id)+size <= maxAnswer {
		c.recent.put(id, l, v)
	}
}

// fly answers all callers that wait for l.
func (c *Of[V]) fly(ctx context.Context, l Lookup[V], s Search[V]) Found[V] {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
	defer cancel()
	// If the search ignores its deadline, later callers start a new flight and do not
	// wait for this one.
	stop := context.AfterFunc(ctx, func() { c.flights.Forget(l.name) })
	defer stop()
	for at := 1; at < len(c.Tiers); at++ {
		ctx = withWaitBudget(ctx, c.Tiers[at].Wait)
		value, err := c.Tiers[at].get(ctx, l.name)
		if v, outcome := c.judge(ctx, at, &l, value, err, s.Complete); outcome == Hit {
			c.keep(ctx, at, l, v)
			return Found[V]{Value: v, Hit: true, Took: time.Since(start)}
		}
	}
	return c.find(ctx, l, s)
}

// find asks s, and keeps what it finds in all tiers.
func (c *Of[V]) find(ctx context.Context, l Lookup[V], s Search[V]) (f Found[V]) {
	defer recovered(&f.Err) // a panic would end the process
	v, whole, err := s.Find(ctx)
	if err == nil && whole {
		c.keepFound(ctx, &l, v)
	}
	return Found[V]{Value: v, Err: err}
}

// keepFound keeps in all tiers what was found for l.
func (c *Of[V]) keepFound(ctx context.Context, l *Lookup[V], v V) {
	if l.value = c.Encode(l.key, v); l.value != nil {
		c.keep(ctx, len(c.Tiers), *l, v)
	}
}

// alone tells whether there is no far tier.
func (c *Of[V]) alone() bool { return len(c.Tiers) == 1 }

// judge takes what a tier returned and tells the outcome. After a Hit, l holds the value.
func (c *Of[V]) judge(ctx context.Context, at int, l *Lookup[V], value []byte, err error, complete func(context.Context, *V) error) (v V, _ Outcome) {
	event := Event{Tier: c.Tiers[at].Name}
	outdated := false
	if err == nil && value != nil {
		v, outdated, err = c.read(ctx, l.key, value, complete)
	}
	var mismatch Mismatch
	broken := false
	if err != nil {
		mismatch, broken = errors.AsType[Mismatch](err)
	}
	switch {
	case err == nil && value == nil, outdated:
		event.Result = Miss
	case err == nil:
		event.Result, l.value = Hit, value
	case broken:
		event.Result, event.Mismatch = Mismatched, mismatch
	case errors.Is(err, ErrSkipped):
		event.Result = Skipped
	case ctx.Err() != nil: // the request ran out of time, not the store
		event.Result = Miss
	default:
		event.Result, event.Err = GetError, fmt.Errorf("cache get: %w", err)
	}
	// If it is not known what the key holds, it could be somebody else's data, so it is
	// not overwritten.
	if err != nil && !outdated && (!broken || mismatch == MismatchType) {
		l.unwritable |= 1 << at
	}
	c.observe(event)
	return v, event.Result
}

// read decodes a value and completes it. One that is outdated is as good as none.
func (c *Of[V]) read(ctx context.Context, key Key, value []byte, complete func(context.Context, *V) error) (v V, outdated bool, err error) {
	if v, err = c.Decode(key, value); err != nil {
		return v, false, err
	}
	if complete != nil {
		if err = complete(ctx, &v); err != nil {
			_, wrong := errors.AsType[Mismatch](err)
			return v, !wrong, err
		}
	}
	return v, c.Left != nil && c.Left(v) <= 0, nil
}

// keep writes v, which is l's value, to the tiers before end.
func (c *Of[V]) keep(ctx context.Context, end int, l Lookup[V], v V) {
	for at := range c.Tiers[:end] {
		tier := &c.Tiers[at]
		if l.unwritable&(1<<at) != 0 {
			continue
		}
		if err := tier.set(ctx, l.name, l.value, c.lifetime(tier, v)); err != nil && !errors.Is(err, ErrSkipped) {
			c.observe(Event{Tier: tier.Name, Result: SetError, Err: fmt.Errorf("cache set: %w", err)})
		}
	}
}

// lifetime returns how long a tier is to keep v.
func (c *Of[V]) lifetime(t *Tier, v V) time.Duration {
	if c.Left != nil {
		return c.Left(v)
	}
	return t.lifetime(c.Empty(v))
}

func (c *Of[V]) observe(e Event) {
	if c.Observe != nil {
		e.Kind = c.Kind
		c.Observe(e)
	}
}

// recovered, when deferred, turns a panic into the error.
func recovered(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("panic: %v", broken)
	}
}
