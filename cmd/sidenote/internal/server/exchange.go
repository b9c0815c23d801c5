package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sidenote/cache"
	"sidenote/rewrite/model"
)

const (
	// every is the mean interval at which replicas exchange what they learned.
	every = 30 * time.Second
	// lifetime is how long the value of a model is kept for other replicas.
	lifetime = 7 * 24 * time.Hour
	// lastWait limits the last exchange, at the end of the process.
	lastWait = time.Second
)

// An Exchange shares the values of a Tracker with other replicas. All fields are required.
type Exchange struct {
	Tracker *model.Tracker
	Store   *cache.CodecStore
	// Mismatched is called for each value in Store that does not belong to its key.
	Mismatched func(why cache.Mismatch)
}

// Run exchanges values repeatedly until ctx ends, and then once more. The interval varies, so that
// replicas rarely overwrite each other's values; an overwritten value is written again, see
// model.Tracker.
func (e *Exchange) Run(ctx context.Context) {
	for pause(ctx, every/2+rand.N(every)) {
		e.Once(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	e.Once(last)
}

// pause waits for d and returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Once exchanges the values of all models whose answers this process has seen. A failure of Redis
// is counted and otherwise ignored.
func (e *Exchange) Once(ctx context.Context) {
	for _, known := range e.Tracker.All() {
		if ctx.Err() != nil {
			return
		}
		e.one(ctx, known.CalibrationKey)
	}
}

// one exchanges the value of one key.
func (e *Exchange) one(ctx context.Context, k model.CalibrationKey) {
	key := cache.NamedKey(cache.Calibration, k.Upstream, k.Row, k.Name, k.Tenant)
	name := key.String()
	value, err := e.Store.Get(ctx, name)
	var theirs []byte
	if err == nil && value != nil {
		theirs, err = cache.Body(key, value)
	}
	if err != nil {
		m, wrong := errors.AsType[cache.Mismatch](err)
		if wrong {
			e.Mismatched(m)
		}
		if !wrong || m == cache.MismatchType { // the stored value is unknown, or of another type
			return
		}
	}
	merged, changed := e.Tracker.Merge(k, theirs)
	if !changed {
		return
	}
	if err := e.Store.Set(ctx, name, cache.Seal(key, merged), lifetime); err != nil {
		e.Tracker.Unwritten(k)
	}
}
