package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
)

// drainWait is how long the end of the process may wait for writes to Redis.
const drainWait = time.Second

// redisCaches are the caches that replicas share. A nil one has no tier, and all its methods
// may be called.
type redisCaches struct {
	cfg    config.Redis
	empty  time.Duration // TTL of empty answers
	db     *redis.DB
	stores map[cache.Kind]*redis.Store
	codecs map[cache.Kind]*cache.CodecStore
	behind map[cache.Kind]*cache.WriteBehind // in front of codecs, where requests wait
}

// openRedis begins to use the Redis of the configuration, if there is one. It does
// not wait for it.
func openRedis(cfg *config.Config, m monitor) (*redisCaches, error) {
	r := cfg.Redis
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
		Observe: func(e redis.Event) { m.metrics.RedisCall(e.Use, e.Took, string(e.Kind)) },
		Changed: m.changed,
	})
	if err != nil {
		return nil, err
	}
	c := &redisCaches{
		cfg: r, empty: cfg.Cache.EmptyTTL, db: db,
		stores: map[cache.Kind]*redis.Store{}, codecs: map[cache.Kind]*cache.CodecStore{}, behind: map[cache.Kind]*cache.WriteBehind{},
	}
	for _, kind := range []cache.Kind{cache.Candidates, cache.Selected, cache.Calibration} {
		store := db.Store(string(kind))
		c.stores[kind], c.codecs[kind] = store, cache.NewCodecStore(store, keys)
		m.watchBreaker(tierRedis+"/"+string(kind), store.Open)
	}
	for _, kind := range []cache.Kind{cache.Candidates, cache.Selected} {
		c.behind[kind] = cache.NewWriteBehind(c.codecs[kind])
	}
	return c, nil
}

// tier is the tier of a kind on Redis, if there is one.
func (c *redisCaches) tier(kind cache.Kind) []cache.Tier {
	if c == nil {
		return nil
	}
	return []cache.Tier{{Name: tierRedis, Store: c.behind[kind], TTL: c.cfg.TTL, EmptyTTL: c.empty, Wait: c.cfg.Timeout}}
}

// problems says what does not work at present.
func (c *redisCaches) problems() []string {
	if c == nil {
		return nil
	}
	return c.db.Trouble()
}

// describe says in a few words what is shared, once it is known.
func (c *redisCaches) describe(ctx context.Context) string {
	if c == nil {
		return "no Redis"
	}
	for _, store := range c.stores {
		select {
		case <-store.Asked():
		case <-ctx.Done():
		}
	}
	if problems := c.problems(); len(problems) > 0 {
		return strings.Join(problems, "; ")
	}
	return "shared on redis " + c.db.Address() + ", prefix " + string(c.cfg.Prefix)
}

func (c *redisCaches) close() error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	for _, b := range c.behind {
		_ = b.Close(ctx) // what was not written is found again
	}
	return c.db.Close()
}
