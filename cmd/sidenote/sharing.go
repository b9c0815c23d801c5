package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
)

// The tiers of the cache, as metrics name them.
const (
	tierMemory = "memory"
	tierRedis  = "redis"
)

// drainWait is how long the end of the process may wait for what is still to be
// written to Redis.
const drainWait = time.Second

// sharing is what replicas share. All its methods are for a nil one too, which
// shares nothing.
type sharing struct {
	cfg    config.Redis
	empty  time.Duration // TTL of empty answers
	db     *redis.DB
	stores map[cache.Kind]*redis.Store
	packed map[cache.Kind]*cache.Packed
	behind map[cache.Kind]*cache.Behind // in front of packed, where requests wait
}

// share begins to use the Redis of the configuration, if there is one. It does
// not wait for it.
func (s *stack) share() (*sharing, error) {
	r := s.cfg.Redis
	url := r.URL.Value.Reveal()
	if url == "" {
		return nil, nil
	}
	var keys *cache.Keys
	var err error
	if text := r.EncryptionKeys.Value.Reveal(); text != "" {
		if keys, err = cache.ParseKeys([]byte(text)); err != nil {
			return nil, fmt.Errorf("redis.encryption_keys: %w", err)
		}
	}
	db, err := redis.Open(redis.Options{
		URL: url, Prefix: string(r.Prefix), Timeout: r.Timeout, PoolSize: int(r.PoolSize), CA: r.CAPEM,
		Observe: func(e redis.Event) { s.metrics.RedisCall(e.Use, e.Took, string(e.Kind)) },
		Changed: s.changed,
	})
	if err != nil {
		return nil, err
	}
	sh := &sharing{
		cfg: r, empty: s.cfg.Cache.EmptyTTL, db: db,
		stores: map[cache.Kind]*redis.Store{}, packed: map[cache.Kind]*cache.Packed{}, behind: map[cache.Kind]*cache.Behind{},
	}
	for _, kind := range []cache.Kind{cache.Candidates, cache.Selected, cache.Calibration} {
		store := db.Store(string(kind))
		sh.stores[kind], sh.packed[kind] = store, cache.NewPacked(store, keys)
		s.watchBreaker(tierRedis+"/"+string(kind), store.Open)
	}
	for _, kind := range []cache.Kind{cache.Candidates, cache.Selected} {
		sh.behind[kind] = cache.NewBehind(sh.packed[kind], cache.BehindOptions{})
	}
	return sh, nil
}

// watchBreaker shows whether a breaker is open.
func (s *stack) watchBreaker(name string, open func() bool) {
	s.metrics.Watch("breaker_open", "1 while calls are skipped because they would fail.", map[string]string{"name": name}, false, func() float64 {
		if open() {
			return 1
		}
		return 0
	})
}

// tier is the far tier of a cache, if there is one.
func (sh *sharing) tier(kind cache.Kind) []cache.Tier {
	if sh == nil {
		return nil
	}
	return []cache.Tier{{Name: tierRedis, Store: sh.behind[kind], TTL: sh.cfg.TTL, EmptyTTL: sh.empty, Wait: sh.cfg.Timeout}}
}

// trouble says what does not work at present.
func (sh *sharing) trouble() []string {
	if sh == nil {
		return nil
	}
	return sh.db.Trouble()
}

// state says in a few words what is shared, once it is known.
func (sh *sharing) state(ctx context.Context) string {
	if sh == nil {
		return "no Redis"
	}
	for _, store := range sh.stores {
		select {
		case <-store.Asked():
		case <-ctx.Done():
		}
	}
	if trouble := sh.trouble(); len(trouble) > 0 {
		return strings.Join(trouble, "; ")
	}
	return "shared on redis " + sh.db.Address() + ", prefix " + string(sh.cfg.Prefix)
}

func (sh *sharing) close() error {
	if sh == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	for _, b := range sh.behind {
		_ = b.Close(ctx) // what was not written is found again
	}
	return sh.db.Close()
}

// observeCache counts what happens in the caches.
func (s *stack) observeCache(e cache.Event) {
	switch e.Result {
	case cache.SetError:
		if errors.Is(e.Err, cache.ErrBehind) {
			s.metrics.RedisError(string(e.Kind), string(redis.Dropped))
		}
		return
	case cache.Mismatched:
		s.mismatched(e.Tier, e.Mismatch)
	}
	tier, result := e.Tier, "miss"
	switch e.Result {
	case cache.Hit, cache.Skipped:
		result = string(e.Result)
	case cache.GetError:
		result = "error"
	case cache.Bypass:
		tier = tierMemory
	}
	s.metrics.CacheLookup(string(e.Kind), tier, result)
}

// mismatched tells of a value that is not what was stored under its key.
func (s *stack) mismatched(tier string, m cache.Mismatch) {
	s.metrics.Mismatch(string(m))
	s.tell(slog.LevelWarn, fmt.Sprintf("cache: a value in %s was not what its key says (%s), and was not used", tier, string(m)))
}
