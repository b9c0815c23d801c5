package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// jitter is the fraction of a TTL by which it varies at random, so that entries do not expire
// together.
const jitter = 0.1

// A Tier is a store that a cache uses.
type Tier struct {
	Name  string // a metric label: "memory", "redis"
	Store Store

	TTL      time.Duration // lifetime of values
	EmptyTTL time.Duration // lifetime of empty values, such as results without sources

	// Wait limits how long a request may wait for this tier in all its lookups together; 0 is for
	// a store that never blocks. It does not apply to writes: put a WriteBehind before a store
	// with slow writes.
	Wait time.Duration
}

// ErrSkipped is the error of a Store that did not try a call because it knows that it would fail.
// It does not count as a failure.
var ErrSkipped = errors.New("not tried")

// get looks name up in the store, within the time that the request may still wait.
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

// lifetime returns how long a value is stored.
func (t *Tier) lifetime(empty bool) time.Duration {
	ttl := t.TTL
	if empty {
		ttl = t.EmptyTTL
	}
	return ttl + time.Duration(jitter*(2*rand.Float64()-1)*float64(ttl))
}
