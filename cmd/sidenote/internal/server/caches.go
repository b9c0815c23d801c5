package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite/toolcalls"
)

// Caches are the caches of this process, and those on Redis that replicas share.
type Caches struct {
	cfg     *config.Config
	monitor Monitor
	memory  map[cache.Kind]*cache.Memory

	// Changed hears of what begins and ends to go wrong with Redis.
	Changed func(line string, bad bool)

	DB     *redis.DB   // nil without Redis; the maps below are empty then
	keys   *cache.Keys // nil: nothing is encrypted
	stores map[cache.Kind]*redis.Store
	codecs map[cache.Kind]*cache.CodecStore
	behind map[cache.Kind]*cache.WriteBehind // in front of codecs, where requests wait
}

// NewCaches makes the caches of a configuration, and begins to use its Redis. limited tells whether
// budgets that are counted in a Redis limit anybody at present.
func NewCaches(cfg *config.Config, limited func() bool, m Monitor) (*Caches, error) {
	c := &Caches{
		cfg: cfg, monitor: m, Changed: Together(m.Changed), memory: map[cache.Kind]*cache.Memory{},
		stores: map[cache.Kind]*redis.Store{}, codecs: map[cache.Kind]*cache.CodecStore{}, behind: map[cache.Kind]*cache.WriteBehind{},
	}
	// An entry of candidates is as large as one of what was selected of them, and is asked for
	// far less often: only for what came too late, or under another policy.
	bytes := int64(cfg.Cache.Memory)
	for kind, share := range map[cache.Kind]int64{cache.Candidates: bytes / 8, cache.Selected: bytes - bytes/8} {
		if _, err := c.open(kind, share); err != nil {
			return nil, err
		}
	}
	return c, c.openRedis(limited)
}

// open makes the cache of a kind in this process.
func (c *Caches) open(kind cache.Kind, bytes int64) (*cache.Memory, error) {
	store, err := cache.NewMemory(bytes)
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	c.memory[kind] = store
	c.watchBytes(kind, store.Bytes)
	return store, nil
}

// watchBytes shows what the cache of a kind holds in this process.
func (c *Caches) watchBytes(kind cache.Kind, held func() int64) {
	c.monitor.Metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(kind)}, false,
		func() float64 { return float64(held()) })
}

// Bytes is what the cache of a kind holds in this process.
func (c *Caches) Bytes(kind cache.Kind) int64 { return c.memory[kind].Bytes() }

// Calibration is where replicas share what they learn of models' counts; nil without Redis.
func (c *Caches) Calibration() *cache.CodecStore { return c.codecs[cache.Calibration] }

// Before puts the tiers of a kind before a retriever.
func (c *Caches) Before(next retrieval.Retriever, kind cache.Kind) retrieval.Retriever {
	local, shared := c.cfg.Cache, c.cfg.Redis
	tiers := []cache.Tier{{Name: TierMemory, Store: c.memory[kind], TTL: local.TTL, EmptyTTL: local.EmptyTTL}}
	if store := c.behind[kind]; store != nil {
		tiers = append(tiers, cache.Tier{Name: TierRedis, Store: store, TTL: shared.TTL, EmptyTTL: local.EmptyTTL, Wait: shared.Timeout})
	}
	return cache.NewRetriever(next, kind, tiers, c.monitor.Cached)
}

// Questions keeps the vectors of questions that a client makes.
func (c *Caches) Questions(client *services.Embedder) (*cache.Questions, error) {
	store, err := c.open(cache.Embedded, int64(c.cfg.Cache.Memory)/16)
	if err != nil {
		return nil, err
	}
	tier := cache.Tier{Name: TierMemory, Store: store, TTL: questionTTL, EmptyTTL: questionTTL}
	return cache.NewQuestions(client, client.Space, tier, c.monitor.Cached), nil
}

// Turns keeps what clients do not see of turns with tools. It is called once, where some policy
// offers tools. What is kept is on Redis before the client has its part, which it sends to any
// replica.
func (c *Caches) Turns() *toolcalls.TurnStore {
	return toolcalls.NewTurnStore(c.latest(cache.Turns, toolcalls.TurnLifetime), c.monitor.Cached)
}

// Outputs remembers what stages before the last one said. It is called once, where some policy wants
// that.
func (c *Caches) Outputs() *cache.StageOutputs {
	return cache.NewStageOutputs(c.latest(cache.Outputs, 0), c.monitor.Cached) // each has a lifetime of its own
}

// latest makes the tiers of a kind, of which the latest are kept in memory. What is set is on Redis
// before whoever sets it goes on.
func (c *Caches) latest(kind cache.Kind, ttl time.Duration) []cache.Tier {
	memory := toolcalls.NewTurnMemory(int64(c.cfg.Cache.Memory) / 8)
	c.watchBytes(kind, memory.Bytes)
	tiers := []cache.Tier{{Name: TierMemory, Store: memory, TTL: ttl, EmptyTTL: ttl}}
	if c.DB != nil {
		_, shared := c.openShared(kind)
		tiers = append(tiers, cache.Tier{Name: TierRedis, Store: shared, TTL: ttl, EmptyTTL: ttl, Wait: c.cfg.Redis.Timeout})
	}
	return tiers
}

// questionTTL is how long the vector of a question is kept: it never changes.
const questionTTL = 24 * time.Hour

// Close writes what is still to be written to Redis, for a second at most.
func (c *Caches) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), DrainWait)
	defer cancel()
	for _, b := range c.behind {
		_ = b.Close(ctx) // what was not written is found again
	}
	var errs []error
	if c.DB != nil {
		errs = append(errs, c.DB.Close())
	}
	for _, store := range c.memory {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}
