package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
)

var errTooLarge = errors.New("value too large")

// A Store is the cache.Store of one use of a Redis, with a breaker of its own.
// Its calls return by the context's deadline and within the DB's time-out. While
// the breaker is open they return at once, with an error that wraps
// cache.ErrSkipped, and a probe in the background finds out when it can close.
//
// A key that holds something other than a string, or a string larger than is
// kept, is a cache.Mismatch; what stands there is not touched.
type Store struct {
	db      *DB
	use     string
	breaker breaker
	first   chan struct{} // closed when the first probe has ended
}

// Store returns the store of a use, whose name is a metric label. It begins to
// find out at once whether the Redis works.
func (d *DB) Store(use string) *Store {
	s := &Store{db: d, use: use, first: make(chan struct{})}
	asked := sync.OnceFunc(func() { close(s.first) })
	d.probes.start(0, func(ctx context.Context) bool {
		defer asked()
		return s.probe(ctx)
	})
	return s
}

// Asked is closed once it is known whether the Redis works, which takes about a
// time-out.
func (s *Store) Asked() <-chan struct{} { return s.first }

// Open tells whether the breaker is open, so that calls are skipped.
func (s *Store) Open() bool { return s.breaker.allow() == 0 }

// Get returns the value of key, nil if it is absent.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := s.call(ctx, opGet, func(ctx context.Context) (err error) {
		value, err = s.read(ctx, s.db.prefix+":"+key)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(value) > s.db.maxBytes {
		return nil, cache.MismatchSize
	}
	return value, nil
}

// read asks for a range, so that a value of half a gigabyte that somebody put
// there is not sent. An empty string is an absent value.
func (s *Store) read(ctx context.Context, key string) ([]byte, error) {
	value, err := s.db.client.GetRange(ctx, key, 0, int64(s.db.maxBytes)).Bytes()
	if err != nil || len(value) == 0 {
		return nil, err
	}
	return value, nil
}

// Set keeps val for ttl. The key is overwritten whatever it holds: look first.
func (s *Store) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	if len(val) > s.db.maxBytes {
		s.db.observe(Event{Use: s.use, Kind: TooLarge})
		return fmt.Errorf("%w: %d bytes of at most %d", errTooLarge, len(val), s.db.maxBytes)
	}
	if ttl <= 0 {
		val, ttl = nil, 0
	}
	return s.call(ctx, opSet, func(ctx context.Context) error {
		return s.db.client.Set(ctx, s.db.prefix+":"+key, val, max(ttl, time.Millisecond)).Err()
	})
}

// The commands that are needed; a user of Redis must be allowed to run them.
const (
	opGet = "GETRANGE"
	opSet = "SET"
)

// call makes one call and draws the conclusions.
func (s *Store) call(ctx context.Context, op string, f func(context.Context) error) error {
	period := s.breaker.allow()
	if period == 0 {
		return fmt.Errorf("redis is down: %w", cache.ErrSkipped)
	}
	start := time.Now()
	deadline := start.Add(s.db.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	err := f(ctx)
	kind := s.judge(err, deadline.Sub(start), start)
	s.db.observe(Event{Use: s.use, Took: time.Since(start), Kind: kind})
	switch {
	case kind == "":
		s.breaker.worked(period)
		s.db.health.mend(s.subject(op))
		return nil
	case kind == Type:
		s.breaker.worked(period)
		return cache.MismatchType
	case kind.fatal(op) && s.breaker.failed(period):
		s.db.health.fail(s.subject(opGet), s.db.explain(op, err))
		s.db.probes.start(pause(), s.probe)
	case kind.lasting() && !kind.fatal(op):
		s.db.health.fail(s.subject(op), s.db.explain(op, err))
	}
	return fmt.Errorf("redis %s: %s: %w", op, kind, err)
}

// judge sorts the error of a call that had so much time. A call that was given
// less than half of what it may take proves nothing by taking it all.
func (s *Store) judge(err error, given time.Duration, start time.Time) Kind {
	if err == nil || errors.Is(err, goredis.Nil) {
		return ""
	}
	kind := kindOf(err)
	if kind == Timeout && given < s.db.timeout/2 {
		return gone
	}
	return kind
}

func (s *Store) subject(op string) string { return s.use + " " + op }

// probe asks whether the store works again and closes the breaker if so. What it
// writes is nobody's value, and a key that exists is left alone.
func (s *Store) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, dialWait*s.db.timeout)
	defer cancel()
	key := s.db.prefix + ":probe:{" + s.use + "}"
	if _, err := s.read(ctx, key); err != nil && kindOf(err).fatal(opGet) {
		s.db.health.fail(s.subject(opGet), s.db.explain(opGet, err))
		return false
	}
	s.db.health.mend(s.subject(opGet))
	if err := s.db.client.SetNX(ctx, key, "1", time.Second).Err(); err == nil {
		s.db.health.mend(s.subject(opSet))
	} else if kindOf(err).lasting() {
		s.db.health.fail(s.subject(opSet), s.db.explain(opSet, err))
	}
	s.breaker.close()
	return true
}
