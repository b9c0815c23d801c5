package engine

import (
	"errors"
	"fmt"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
)

// The tiers of the cache, as metrics name them.
const (
	tierMemory = "memory"
	tierRedis  = "redis"
)

// caches are the caches of this process, and those on Redis.
type caches struct {
	cfg     config.Cache
	memory  map[cache.Kind]*cache.Memory
	redis   *redisCaches // nil without Redis
	monitor monitor
}

func newCaches(cfg *config.Config, m monitor) (*caches, error) {
	memory, err := newMemory(int64(cfg.Cache.Memory))
	if err != nil {
		return nil, err
	}
	shared, err := openRedis(cfg, m)
	if err != nil {
		return nil, err
	}
	for kind, store := range memory {
		m.metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(kind)}, false,
			func() float64 { return float64(store.Bytes()) })
	}
	return &caches{cfg: cfg.Cache, memory: memory, redis: shared, monitor: m}, nil
}

// newMemory divides the memory for caches. An entry of candidates is ten times
// as large as one of what was selected of them, and is asked for far less often: only
// for what came too late, or under another policy.
func newMemory(bytes int64) (map[cache.Kind]*cache.Memory, error) {
	stores := map[cache.Kind]*cache.Memory{}
	for kind, share := range map[cache.Kind]int64{cache.Candidates: bytes / 8, cache.Selected: bytes - bytes/8} {
		store, err := cache.NewMemory(share)
		if err != nil {
			return nil, fmt.Errorf("make cache: %w", err)
		}
		stores[kind] = store
	}
	return stores, nil
}

// before puts the tiers of a kind before a retriever.
func (c *caches) before(next retrieval.Retriever, kind cache.Kind) retrieval.Retriever {
	first := cache.Tier{Name: tierMemory, Store: c.memory[kind], TTL: c.cfg.TTL, EmptyTTL: c.cfg.EmptyTTL}
	tiers := append([]cache.Tier{first}, c.redis.tier(kind)...)
	return cache.NewRetriever(next, kind, tiers, c.monitor.cached)
}

func (c *caches) close() error {
	errs := []error{c.redis.close()}
	for _, store := range c.memory {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}
