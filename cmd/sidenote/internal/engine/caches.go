package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/embed"
)

// The tiers of the cache, as metrics name them.
const (
	tierMemory = "memory"
	tierRedis  = "redis"
)

// caches are the caches of this process, and those on Redis that replicas share.
type caches struct {
	cfg     *config.Config
	monitor monitor
	memory  map[cache.Kind]*cache.Memory

	db     *redis.DB // nil without Redis; the maps below are empty then
	stores map[cache.Kind]*redis.Store
	codecs map[cache.Kind]*cache.CodecStore
	behind map[cache.Kind]*cache.WriteBehind // in front of codecs, where requests wait
}

func newCaches(cfg *config.Config, m monitor) (*caches, error) {
	c := &caches{
		cfg: cfg, monitor: m, memory: map[cache.Kind]*cache.Memory{},
		stores: map[cache.Kind]*redis.Store{}, codecs: map[cache.Kind]*cache.CodecStore{}, behind: map[cache.Kind]*cache.WriteBehind{},
	}
	// An entry of candidates is as large as one of what was selected of them, and is asked for
	// far less often: only for what came too late, or under another policy.
	bytes := int64(cfg.Cache.Memory)
	for kind, share := range map[cache.Kind]int64{cache.Candidates: bytes / 8, cache.Selected: bytes - bytes/8} {
		store, err := cache.NewMemory(share)
		if err != nil {
			return nil, fmt.Errorf("make cache: %w", err)
		}
		c.memory[kind] = store
		m.metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(kind)}, false,
			func() float64 { return float64(store.Bytes()) })
	}
	return c, c.openRedis()
}

// before puts the tiers of a kind before a retriever.
func (c *caches) before(next retrieval.Retriever, kind cache.Kind) retrieval.Retriever {
	local, shared := c.cfg.Cache, c.cfg.Redis
	tiers := []cache.Tier{{Name: tierMemory, Store: c.memory[kind], TTL: local.TTL, EmptyTTL: local.EmptyTTL}}
	if store := c.behind[kind]; store != nil {
		tiers = append(tiers, cache.Tier{Name: tierRedis, Store: store, TTL: shared.TTL, EmptyTTL: local.EmptyTTL, Wait: shared.Timeout})
	}
	return cache.NewRetriever(next, kind, tiers, c.monitor.cached)
}

// questions keeps the vectors of questions that a client makes.
func (c *caches) questions(client *embed.Client) (*cache.Questions, error) {
	store, err := cache.NewMemory(int64(c.cfg.Cache.Memory) / 16)
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	c.memory[cache.Embedded] = store
	c.monitor.metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(cache.Embedded)}, false,
		func() float64 { return float64(store.Bytes()) })
	tier := cache.Tier{Name: tierMemory, Store: store, TTL: questionTTL, EmptyTTL: questionTTL}
	return cache.NewQuestions(client, client.Space, tier, c.monitor.cached), nil
}

// questionTTL is how long the vector of a question is kept: it never changes.
const questionTTL = 24 * time.Hour

func (c *caches) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	for _, b := range c.behind {
		_ = b.Close(ctx) // what was not written is found again
	}
	var errs []error
	if c.db != nil {
		errs = append(errs, c.db.Close())
	}
	for _, store := range c.memory {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}
