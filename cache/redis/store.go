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

// A Store is the cache.Store for one use of a Redis, with its own breaker. Its calls return by the
// context's deadline and within the DB's timeout. While the breaker is open they return at once
// with an error that wraps cache.ErrSkipped, and a probe in the background finds out when it can
// close.
//
// A key that holds another type than a string, or a string that is too large, is a cache.Mismatch
// and is not changed.
type Store struct {
	db      *DB
	use     string
	breaker breaker
	// meanwhile describes the effect of failing calls; nil for that of the DB.
	meanwhile func() string
	quiet     func() bool             // suppresses reports of failures; may be nil
	probed    chan struct{}           // closed when the first probe has ended
	watches   map[string]*atomic.Bool // by command: whether watchCommand is running
}

// Store returns the store for a use, whose name is a metric label. It starts at once to find out
// whether the Redis works.
func (d *DB) Store(use string) *Store { return d.newStore(use, nil, nil) }

func (d *DB) newStore(use string, meanwhile func() string, quiet func() bool) *Store {
	s := &Store{db: d, use: use, meanwhile: meanwhile, quiet: quiet, probed: make(chan struct{}), watches: map[string]*atomic.Bool{opGet: {}, opSet: {}, opScript: {}}}
	asked := sync.OnceFunc(func() { close(s.probed) })
	context.AfterFunc(d.probes.ctx, asked)
	d.probes.start(0, func(ctx context.Context) bool {
		defer asked()
		return s.probe(ctx)
	})
	return s
}

// Asked returns a channel that is closed once it is known whether the Redis works, which takes a
// few timeouts at most, or when the DB is closed.
func (s *Store) Asked() <-chan struct{} { return s.probed }

// Open reports whether the breaker is open, so that calls are skipped.
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
	if len(value) > maxBytes {
		return nil, cache.MismatchSize
	}
	return value, nil
}

// read asks for a range, so that a huge value that somebody else stored is not transferred as a
// whole. An empty string counts as absent.
func (s *Store) read(ctx context.Context, key string) ([]byte, error) {
	value, err := s.db.client.GetRange(ctx, key, 0, maxBytes).Bytes()
	switch {
	case isNil(err): // the answer of some servers that imitate Redis
		return nil, nil
	case err != nil || len(value) == 0:
		return nil, err
	}
	return value, nil
}

// Set stores val for ttl. It overwrites whatever the key holds, so look it up first.
func (s *Store) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	if len(val) > maxBytes {
		s.db.observe(Event{Use: s.use, Kind: TooLarge})
		return fmt.Errorf("%w: %d bytes of at most %d", errTooLarge, len(val), maxBytes)
	}
	if ttl <= 0 {
		val, ttl = nil, 0
	}
	if !s.mayWrite(ctx, len(key)+len(val)) {
		s.db.observe(Event{Use: s.use, Kind: Memory})
		return errHeldBack
	}
	return s.call(ctx, opSet, func(ctx context.Context) error {
		return s.db.client.Set(ctx, s.db.prefix+":"+key, val, max(ttl, time.Millisecond)).Err()
	})
}

// The commands in use, which the Redis user must be allowed to run.
const (
	opGet    = "GETRANGE"
	opSet    = "SET"
	opScript = "EVALSHA" // only of ledgers
)

// call makes one call, observes it and updates the breaker and the health.
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
			s.db.health.worked(s.subject(op))
		}
	case kind.opensBreaker(op) && s.breaker.failed(period):
		s.fail(s.subject(opGet), op, err)
		s.db.probes.start(pause(), s.probe)
	case kind.isReported() && period == s.breaker.allow():
		s.fail(s.subject(op), op, err)
		s.watchCommand(op)
	}
	switch kind {
	case "":
		return nil
	case Type:
		return cache.MismatchType
	}
	return &failure{op, kind, err}
}

// judge returns the kind of a call's error; given is the time that the call had. If that was less
// than half of the timeout, running out of time says nothing about Redis. If it was more, waiting
// for a connection ends as Pool, because the pool gives up after half of the timeout.
// after half of the time-out.
func (s *Store) judge(err error, given time.Duration) Kind {
	if err == nil {
		return ""
	}
	kind := kindOf(err)
	if kind == Timeout && given < s.db.timeout/2 {
		return callerGone
	}
	return kind
}

// A failure is the error of a call. Its text leaves out the library's error, which may quote what
// the server sent, even the password it was given.
type failure struct {
	op    string
	kind  Kind
	cause error
}

func (f *failure) Error() string { return "redis " + f.op + ": " + string(f.kind) }
func (f *failure) Unwrap() error { return f.cause }

// isNil reports whether err is the reply that there is no value. Wrapped in another error it comes
// from a Sentinel and means something else.
func isNil(err error) bool { return errors.Is(err, goredis.Nil) && errors.Unwrap(err) == nil }

// fail reports why calls of a command fail, unless the store is quiet.
func (s *Store) fail(subject, op string, err error) {
	if s.quiet == nil || !s.quiet() {
		s.db.health.fail(subject, s.db.explain(op, err, s.meanwhile))
	}
}

func (s *Store) subject(op string) string { return s.use + " " + op }

// probe tests whether the store works again and closes the breaker if so.
func (s *Store) probe(ctx context.Context) bool {
	if err := s.runProbe(ctx, opGet); err != nil {
		switch kind := kindOf(err); {
		case kind.opensBreaker(opGet):
			s.fail(s.subject(opGet), opGet, err)
			return false
		case kind == Pool, kind == callerGone: // Redis was not asked
			return false
		}
	}
	s.db.health.clear(s.subject(opGet))
	if err := s.runProbe(ctx, opSet); err == nil {
		s.db.health.clear(s.subject(opSet))
	} else if kindOf(err).isReported() {
		s.fail(s.subject(opSet), opSet, err)
		s.watchCommand(opSet)
	}
	s.breaker.close()
	return true
}

// watchCommand probes a command in the background that was refused while the breaker stayed
// closed, until it works again; requests might find that out only much later. It does nothing if
// it is already running for op.
func (s *Store) watchCommand(op string) {
	running := s.watches[op]
	if running.Swap(true) {
		return
	}
	s.db.probes.start(pause(), func(ctx context.Context) bool {
		running.Store(false) // a call that is refused from here on starts a new watch
		well := !s.Open() && s.runProbe(ctx, op) == nil && s.db.health.worked(s.subject(op))
		return well || running.Swap(true)
	})
}

// runProbe runs a command as a probe. It writes only to a key of its own, and only if that does
// not exist.
func (s *Store) runProbe(ctx context.Context, op string) error {
	ctx, cancel := context.WithTimeout(ctx, s.db.probeTimeout())
	defer cancel()
	key := s.db.prefix + ":probe:{" + s.use + "}"
	if op == opGet {
		_, err := s.read(ctx, key)
		return err
	}
	if op == opScript {
		return probeScript.Run(ctx, s.db.client, []string{key}).Err()
	}
	return s.db.client.SetNX(ctx, key, "1", time.Second).Err()
}
