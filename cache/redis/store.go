package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
)

var (
	errTooLarge = errors.New("value too large")
	errDown     = fmt.Errorf("redis is down: %w", cache.ErrSkipped)
)

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
	first   chan struct{}           // closed when the first probe has ended
	watches map[string]*atomic.Bool // by command: whether watch is at it
}

// Store returns the store of a use, whose name is a metric label. It begins to
// find out at once whether the Redis works.
func (d *DB) Store(use string) *Store {
	s := &Store{db: d, use: use, first: make(chan struct{}), watches: map[string]*atomic.Bool{opGet: {}, opSet: {}}}
	asked := sync.OnceFunc(func() { close(s.first) })
	context.AfterFunc(d.probes.ctx, asked)
	d.probes.start(0, func(ctx context.Context) bool {
		defer asked()
		return s.probe(ctx)
	})
	return s
}

// Asked is closed once it is known whether the Redis works, which takes a few
// time-outs at most, or when the DB is closed.
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
	switch {
	case isNil(err): // as some answer that are not quite a Redis
		return nil, nil
	case err != nil || len(value) == 0:
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
		return errDown
	}
	start := time.Now()
	deadline := start.Add(s.db.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	err := f(ctx)
	kind := s.judge(err, deadline.Sub(start))
	s.db.observe(Event{Use: s.use, Took: time.Since(start), Kind: kind})
	switch {
	case kind == "" || kind == Type:
		if s.breaker.worked(period) {
			s.db.health.improve(s.subject(op))
		}
	case kind.fatal(op) && s.breaker.failed(period):
		s.db.health.fail(s.subject(opGet), s.db.explain(op, err))
		s.db.probes.start(pause(), s.probe)
	case kind.lasting() && period == s.breaker.allow():
		s.db.health.fail(s.subject(op), s.db.explain(op, err))
		s.watch(op)
	}
	switch kind {
	case "":
		return nil
	case Type:
		return cache.MismatchType
	}
	return &failure{op, kind, err}
}

// judge sorts the error of a call that had so much time. A call that was given
// less than half of what it may take proves nothing by taking it all. One that
// was given more and does not get a connection ends as one of the Pool, which
// waits for half of the time-out.
func (s *Store) judge(err error, given time.Duration) Kind {
	if err == nil {
		return ""
	}
	kind := kindOf(err)
	if kind == Timeout && given < s.db.timeout/2 {
		return gone
	}
	return kind
}

// A failure is the error of a call. The library's own is not printed: it may hold
// what a stranger answered, which may be the password that it was sent.
type failure struct {
	op    string
	kind  Kind
	cause error
}

func (f *failure) Error() string { return "redis " + f.op + ": " + string(f.kind) }
func (f *failure) Unwrap() error { return f.cause }

// isNil knows the reply that there is nothing. Wrapped in another error it is a
// Sentinel's, and says something else.
func isNil(err error) bool { return errors.Is(err, goredis.Nil) && errors.Unwrap(err) == nil }

func (s *Store) subject(op string) string { return s.use + " " + op }

// probe asks whether the store works again and closes the breaker if so.
func (s *Store) probe(ctx context.Context) bool {
	if err := s.ask(ctx, opGet); err != nil {
		switch kind := kindOf(err); {
		case kind.fatal(opGet):
			s.db.health.fail(s.subject(opGet), s.db.explain(opGet, err))
			return false
		case kind == Pool, kind == gone: // it was not asked
			return false
		}
	}
	s.db.health.mend(s.subject(opGet))
	if err := s.ask(ctx, opSet); err == nil {
		s.db.health.mend(s.subject(opSet))
	} else if kindOf(err).lasting() {
		s.db.health.fail(s.subject(opSet), s.db.explain(opSet, err))
		s.watch(opSet)
	}
	s.breaker.close()
	return true
}

// watch asks in the background, unless it is at it, until a command works again
// that was refused while the breaker stays closed: it may be long before a request
// finds out.
func (s *Store) watch(op string) {
	running := s.watches[op]
	if running.Swap(true) {
		return
	}
	s.db.probes.start(pause(), func(ctx context.Context) bool {
		running.Store(false) // a call that is refused from here on needs a watch
		well := !s.Open() && s.ask(ctx, op) == nil && s.db.health.improve(s.subject(op))
		return well || running.Swap(true)
	})
}

// ask runs a command for its own sake. What it writes is nobody's value, and a key
// that exists is left alone. It waits for a little longer than for a connection, to
// learn why there is none.
func (s *Store) ask(ctx context.Context, op string) error {
	ctx, cancel := context.WithTimeout(ctx, (dialWait+1)*s.db.timeout)
	defer cancel()
	key := s.db.prefix + ":probe:{" + s.use + "}"
	if op == opGet {
		_, err := s.read(ctx, key)
		return err
	}
	return s.db.client.SetNX(ctx, key, "1", time.Second).Err()
}
