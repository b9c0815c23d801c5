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
	// every is the mean time after which replicas exchange what they learned.
	every = 30 * time.Second
	// lifetime is how long a value of a model is of use to other replicas.
	lifetime = 7 * 24 * time.Hour
	// lastWait is how long the end of the process may wait for the last exchange.
	lastWait = time.Second
)

// An Exchange is what a replica shares of its Tracker. All fields are needed.
type Exchange struct {
	Tracker *model.Tracker
	Store   *cache.CodecStore
	// Mismatched hears of a value in Store that is not what was stored under its key.
	Mismatched func(why cache.Mismatch)
}

// Run makes an exchange now and then until ctx ends, and a last one then. The time varies, so that
// replicas rarely overwrite each other's values; what that loses is written again, see
// model.Tracker.
func (e *Exchange) Run(ctx context.Context) {
	for pause(ctx, every/2+rand.N(every)) {
		e.Once(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	e.Once(last)
}

// pause waits, and tells whether ctx has not ended meanwhile.
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

// Once exchanges the values of all models that this process has seen answers of. Where
// Redis fails, that is counted and nothing else happens.
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
		if !wrong || m == cache.MismatchType { // it is not known what stands there, or it is somebody else's
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
