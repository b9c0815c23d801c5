package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
)

// DrainWait limits how long pending writes to Redis may delay the end of the process.
const DrainWait = time.Second

// openRedis starts to use the configured Redis, if any. It does not wait for it.
func (c *Caches) openRedis(limited func() bool) error {
	r, m := c.cfg.Redis, c.monitor
	url := r.URL.Value.Reveal()
	if url == "" {
		return nil
	}
	var err error
	if text := r.EncryptionKeys.Value.Reveal(); text != "" {
		if c.keys, err = cache.ParseKeys([]byte(text)); err != nil {
			return fmt.Errorf("redis.encryption_keys: %w", err)
		}
	}
	budgets, _ := config.BudgetsRedisURL(c.cfg)
	o := redis.Options{
		URL: url, Prefix: string(r.Prefix), Timeout: r.Timeout, PoolSize: int(r.PoolSize), CA: r.CAPEM,
		Observe: func(e redis.Event) { m.Metrics.RedisCall(e.Use, e.Took, string(e.Kind)) },
		Changed: c.Changed,
		Meanwhile: func() string {
			if limited() {
				return "the cache goes on without it" // tenants with limits may be refused
			}
			return "going on without it"
		},
	}
	if !redis.UsesTLS(url) && redis.UsesTLS(budgets) {
		o.CA = nil // the CA is for the budgets' Redis
	}
	if redis.Address(budgets) == redis.Address(url) {
		o.Reserved = limited
	}
	if c.DB, err = redis.Open(o); err != nil {
		return err
	}
	for _, kind := range []cache.Kind{cache.Candidates, cache.Selected, cache.Calibration} {
		c.stores[kind], c.codecs[kind] = c.openShared(kind)
	}
	for _, kind := range []cache.Kind{cache.Candidates, cache.Selected} {
		c.behind[kind] = cache.NewWriteBehind(c.codecs[kind])
	}
	return nil
}

// openShared returns the Redis store of a kind.
func (c *Caches) openShared(kind cache.Kind) (*redis.Store, *cache.CodecStore) {
	store := c.DB.Store(string(kind))
	c.monitor.WatchBreaker(TierRedis+"/"+string(kind), store.Open)
	return store, cache.NewCodecStore(store, c.keys)
}

// Problems lists the current problems.
func (c *Caches) Problems() []string {
	if c.DB == nil {
		return nil
	}
	return c.DB.Trouble()
}

// Describe says briefly what is shared, once Redis has answered.
func (c *Caches) Describe(ctx context.Context) string {
	if c.DB == nil {
		return "no Redis"
	}
	for _, store := range c.stores {
		select {
		case <-store.Asked():
		case <-ctx.Done():
		}
	}
	shared := "shared on redis " + c.DB.Address() + ", prefix " + string(c.cfg.Redis.Prefix)
	problems := strings.Join(c.Problems(), "; ")
	for _, store := range c.stores {
		if store.Open() {
			return problems
		}
	}
	if problems != "" { // such as that it may forget what budgets count
		return shared + ", but " + problems
	}
	return shared
}
