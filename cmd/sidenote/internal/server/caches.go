package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/experiment"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/toolcalls"
)

// Caches are the caches in this process and those on Redis that replicas share.
type Caches struct {
	cfg     *config.Config
	monitor Monitor
	memory  map[cache.Kind]*cache.Memory

	// Changed is called when a problem with Redis begins and ends.
	Changed func(line string, bad bool)

	DB     *redis.DB   // nil without Redis; the maps below are empty then
	keys   *cache.Keys // nil: values are not encrypted
	stores map[cache.Kind]*redis.Store
	codecs map[cache.Kind]*cache.CodecStore
	behind map[cache.Kind]*cache.WriteBehind // in front of codecs, for lookups by requests
}

// NewCaches creates the caches of a configuration and starts to use its Redis. limited reports
// whether budgets on Redis limit any tenant at present.
func NewCaches(cfg *config.Config, limited func() bool, m Monitor) (*Caches, error) {
	c := &Caches{
		cfg: cfg, monitor: m, Changed: MergeChanges(m.Changed), memory: map[cache.Kind]*cache.Memory{},
		stores: map[cache.Kind]*redis.Store{}, codecs: map[cache.Kind]*cache.CodecStore{}, behind: map[cache.Kind]*cache.WriteBehind{},
	}
	// A list of candidates is as large as the selection from it but is read far less often: only
	// after a late search or under another policy. So it gets a small share.
	bytes := int64(cfg.Cache.Memory)
	for kind, share := range map[cache.Kind]int64{cache.Candidates: bytes / 8, cache.Selected: bytes - bytes/8} {
		if _, err := c.open(kind, share); err != nil {
			return nil, err
		}
	}
	return c, c.openRedis(limited)
}

// open creates the in-memory cache of a kind.
func (c *Caches) open(kind cache.Kind, bytes int64) (*cache.Memory, error) {
	store, err := cache.NewMemory(bytes)
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	c.memory[kind] = store
	c.watchBytes(kind, store.Bytes)
	return store, nil
}

// watchBytes exports the size of the in-memory cache of a kind.
func (c *Caches) watchBytes(kind cache.Kind, held func() int64) {
	c.monitor.Metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(kind)}, false,
		func() float64 { return float64(held()) })
}

// Bytes returns the size of the in-memory cache of a kind.
func (c *Caches) Bytes(kind cache.Kind) int64 { return c.memory[kind].Bytes() }

// Calibration returns the store in which replicas share token-count calibrations, or nil without
// Redis.
func (c *Caches) Calibration() *cache.CodecStore { return c.codecs[cache.Calibration] }

// WithCache puts the cache tiers of a kind in front of a retriever.
func (c *Caches) WithCache(next retrieval.Retriever, kind cache.Kind) retrieval.Retriever {
	local, shared := c.cfg.Cache, c.cfg.Redis
	tiers := []cache.Tier{{Name: TierMemory, Store: c.memory[kind], TTL: local.TTL, EmptyTTL: local.EmptyTTL}}
	if store := c.behind[kind]; store != nil {
		tiers = append(tiers, cache.Tier{Name: TierRedis, Store: store, TTL: shared.TTL, EmptyTTL: local.EmptyTTL, Wait: shared.Timeout})
	}
	return cache.NewRetriever(next, kind, tiers, c.monitor.Cached)
}

// Questions returns a cache of question vectors in front of client.
func (c *Caches) Questions(client *services.Embedder) (*cache.Questions, error) {
	store, err := c.open(cache.Embedded, int64(c.cfg.Cache.Memory)/16)
	if err != nil {
		return nil, err
	}
	tier := cache.Tier{Name: TierMemory, Store: store, TTL: questionTTL, EmptyTTL: questionTTL}
	return cache.NewQuestions(client, client.Space, tier, c.monitor.Cached), nil
}

// Turns returns the store of the parts of tool turns that clients do not see. Call it at most
// once, if a policy offers tools. A turn is on Redis before the client gets its part, as the
// client may continue on another replica.
func (c *Caches) Turns() *toolcalls.TurnStore {
	return toolcalls.NewTurnStore(c.latest(cache.Turns, toolcalls.TurnLifetime), c.monitor.Cached)
}

// Outputs returns a new cache of the outputs of stages before the last one. It is called once, if a
// policy asks for it.
func (c *Caches) Outputs() *cache.StageOutputs {
	return cache.NewStageOutputs(c.latest(cache.Outputs, 0), c.monitor.Cached) // each value has its own lifetime
}

// Chains returns a new store of the links of conversations that upstreams hold. It is called once.
func (c *Caches) Chains() *cache.History[cache.Link] {
	return cache.NewHistory[cache.Link](cache.Links, c.latest(cache.Links, cache.HistoryLifetime), c.monitor.Cached)
}

// Given returns a new store of the sources of turns, which later ones repeat. It is called once, if a
// policy asks for it.
func (c *Caches) Given() *cache.History[*rewrite.EarlierSources] {
	return cache.NewHistory[*rewrite.EarlierSources](cache.Given, c.latest(cache.Given, cache.HistoryLifetime), c.monitor.Cached)
}

// Units returns a new store of the units of turns, for experiments. It is called once, if there is
// Redis and a policy has an experiment.
func (c *Caches) Units() *cache.History[experiment.Key] {
	return cache.NewHistory[experiment.Key](cache.Units, c.latest(cache.Units, cache.HistoryLifetime), c.monitor.Cached)
}

// latest creates tiers for a kind that keep the most recent values in memory. Set returns after
// the value is on Redis.
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

// questionTTL is how long the vector of a question is kept; vectors do not become stale.
const questionTTL = 24 * time.Hour

// Close writes pending values to Redis, for at most a second, and closes the caches.
func (c *Caches) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), DrainWait)
	defer cancel()
	for _, b := range c.behind {
		_ = b.Close(ctx) // values that were not written are computed again
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
