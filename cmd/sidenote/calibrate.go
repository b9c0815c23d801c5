package main

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
	// calibrationTTL is how long what a model was seen to cost is of use to others.
	calibrationTTL = 7 * 24 * time.Hour
)

// shareCalibration exchanges now and then what this process and others learned of
// how upstreams count, and once more at the end. The time varies, so that replicas
// rarely write over each other; what that loses is written again, see
// calibration.Tracker.
func (s *stack) shareCalibration(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(calibrateEvery/2 + rand.N(calibrateEvery)):
			s.exchangeCalibration(ctx)
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWait)
	defer cancel()
	s.exchangeCalibration(last)
}

// exchangeCalibration is one such exchange, of all models that this process has seen
// answers of. Where Redis fails nothing happens, but that it is counted.
func (s *stack) exchangeCalibration(ctx context.Context) {
	for _, k := range s.calibration.Active() {
		if ctx.Err() != nil {
			return
		}
		s.exchangeModel(ctx, k)
	}
}

// exchangeModel exchanges what is known of one key.
func (s *stack) exchangeModel(ctx context.Context, k calibration.Key) {
	store := s.shared.packed[cache.Calibration]
	key := cache.NamedKey(cache.Calibration, k.Upstream, k.Row, k.Name, k.Tenant)
	name := key.String()
	value, err := store.Get(ctx, name)
	var theirs []byte
	if err == nil && value != nil {
		theirs, err = cache.Body(key, value)
	}
	if err != nil {
		m, wrong := errors.AsType[cache.Mismatch](err)
		if wrong {
			s.mismatched(tierRedis, m)
		}
		if !wrong || m == cache.MismatchType { // it is not known what stands there, or it is somebody else's
			return
		}
	}
	merged, changed := s.calibration.Merge(k, theirs)
	if !changed {
		return
	}
	if err := store.Set(ctx, name, cache.Seal(key, merged), calibrationTTL); err != nil {
		s.calibration.Unwritten(k)
	}
}
