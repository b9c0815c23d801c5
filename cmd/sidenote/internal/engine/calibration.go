package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sidenote/cache"
	"sidenote/rewrite/calibration"
)

const (
	// calibrateEvery is the mean time after which replicas exchange what they learned.
	calibrateEvery = 30 * time.Second
	// calibrationTTL is how long a value of a model is of use to other replicas.
	calibrationTTL = 7 * 24 * time.Hour
)

// A calibrationExchange lets replicas share, on Redis, what they learned of how upstreams
// count tokens.
type calibrationExchange struct {
	tracker *calibration.Tracker
	store   *cache.CodecStore
	monitor monitor
}

// run makes an exchange now and then, and a last one at the end. The time varies, so that
// replicas rarely overwrite each other's values; what that loses is written again, see
// calibration.Tracker.
func (e *calibrationExchange) run(ctx context.Context) {
	for Pause(ctx, calibrateEvery/2+rand.N(calibrateEvery)) == nil {
		e.exchange(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWait)
	defer cancel()
	e.exchange(last)
}

// exchange exchanges the values of all models that this process has seen answers of. Where
// Redis fails, that is counted and nothing else happens.
func (e *calibrationExchange) exchange(ctx context.Context) {
	for _, known := range e.tracker.All() {
		if ctx.Err() != nil {
			return
		}
		e.exchangeOne(ctx, known.Key)
	}
}

// exchangeOne exchanges the value of one key.
func (e *calibrationExchange) exchangeOne(ctx context.Context, k calibration.Key) {
	key := cache.NamedKey(cache.Calibration, k.Upstream, k.Row, k.Name, k.Tenant)
	name := key.String()
	value, err := e.store.Get(ctx, name)
	var theirs []byte
	if err == nil && value != nil {
		theirs, err = cache.Body(key, value)
	}
	if err != nil {
		m, wrong := errors.AsType[cache.Mismatch](err)
		if wrong {
			e.monitor.mismatched(tierRedis, m)
		}
		if !wrong || m == cache.MismatchType { // it is not known what stands there, or it is somebody else's
			return
		}
	}
	merged, changed := e.tracker.Merge(k, theirs)
	if !changed {
		return
	}
	if err := e.store.Set(ctx, name, cache.Seal(key, merged), calibrationTTL); err != nil {
		e.tracker.Unwritten(k)
	}
}
