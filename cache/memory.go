package cache

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
)

// entryOverhead is what an entry costs beside its key and value: the library's
// node, its place in the table and the frequency sketch, our header.
const entryOverhead = 256

// largest is the part of the bound that one value may take: a few giants must
// not turn out everything else.
const largest = 8

// A Memory is a Store in this process, bounded in bytes. When it is full, what
// is asked for often stays (W-TinyLFU), so a flood of questions asked once does
// not wash out those that everybody asks.
type Memory struct {
	entries *otter.Cache[string, kept]
	limit   int // bytes of the largest value kept
}

type kept struct {
	value []byte
	ttl   time.Duration
}

// NewMemory returns a Memory of at most maxBytes: keys, values and an estimate
// of what it takes to keep them. Call Close when done with it.
func NewMemory(maxBytes int64) (*Memory, error) {
	if maxBytes <= 0 {
		return nil, fmt.Errorf("memory cache of %d bytes: must be positive", maxBytes)
	}
	entries, err := otter.New(&otter.Options[string, kept]{
		MaximumWeight:    uint64(maxBytes),
		Weigher:          func(key string, v kept) uint32 { return uint32(weight(key, v.value)) },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, kept]) time.Duration { return e.Value.ttl }),
		// What was read is noted each sixteen reads or so, in less time than it takes to
		// start and wake a goroutine for it.
		Executor: func(task func()) { task() },
		Logger:   &otter.NoopLogger{}, // it reports misuse of its loaders, which are not used
	})
	if err != nil {
		return nil, fmt.Errorf("memory cache of %d bytes: %w", maxBytes, err)
	}
	return &Memory{entries: entries, limit: int(min(maxBytes/largest, math.MaxInt32))}, nil
}

func weight(key string, value []byte) int { return len(key) + len(value) + entryOverhead }

// Get returns the value of key, which the caller does not change; nil if it is
// absent or expired. It never fails.
func (m *Memory) Get(_ context.Context, key string) ([]byte, error) {
	e, _ := m.entries.GetIfPresent(key)
	return e.value, nil
}

// Set keeps val for ttl; a ttl that is not positive, or a value of more than an
// eighth of the bound, leaves the key absent. It never fails.
func (m *Memory) Set(_ context.Context, key string, val []byte, ttl time.Duration) error {
	if ttl <= 0 || weight(key, val) > m.limit {
		m.entries.Invalidate(key)
		return nil
	}
	if val == nil {
		val = []byte{} // present, and empty
	}
	m.entries.Set(key, kept{val, ttl})
	// The library evicts some hundred writes later, which with large values is far
	// beyond the bound. A write follows a search; there is time to do it now.
	m.entries.CleanUp()
	return nil
}

// Bytes returns the present size of the cache, counted as its bound is.
func (m *Memory) Bytes() int64 { return int64(m.entries.WeightedSize()) }

// Close empties the cache and ends its upkeep. What is set later may stay
// beyond its time.
func (m *Memory) Close() error {
	m.entries.StopAllGoroutines()
	m.entries.InvalidateAll()
	return nil
}
