package cache

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
)

// entryOverhead is the estimated memory of an entry besides its value: the library's node, its
// place in the table and the frequency sketch, and the slice header of the value.
const entryOverhead = 256

// maxShare limits a single value to 1/maxShare of the cache, so that a few large ones do not evict
// everything else.
const maxShare = 8

// A Memory is an in-process Store with a limit in bytes. When it is full, it keeps what is read
// often (W-TinyLFU), so a flood of one-time questions does not evict popular ones.
type Memory struct {
	entries *otter.Cache[slot, kept]
	seeds   [2]maphash.Seed
	limit   int // size of the largest value
}

// A slot is a hash of a key and replaces it: keys would be one more object per entry for the
// garbage collector. If two keys ever collide, the value tells to which one it belongs.
type slot [2]uint64

func (m *Memory) slot(key string) slot {
	return slot{maphash.String(m.seeds[0], key), maphash.String(m.seeds[1], key)}
}

type kept struct {
	value []byte
	ttl   time.Duration
}

// NewMemory returns a Memory of at most maxBytes, counting values and an estimated overhead. Call
// Close when done with it.
func NewMemory(maxBytes int64) (*Memory, error) {
	if maxBytes <= 0 {
		return nil, fmt.Errorf("memory cache of %d bytes: must be positive", maxBytes)
	}
	entries, err := otter.New(&otter.Options[slot, kept]{
		MaximumWeight:    uint64(maxBytes),
		Weigher:          func(_ slot, v kept) uint32 { return uint32(weight(v.value)) },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[slot, kept]) time.Duration { return e.Value.ttl }),
		// The library processes its read buffer about every sixteen reads. That takes less time
		// than starting a goroutine for it.
		Executor: func(task func()) { task() },
		Logger:   &otter.NoopLogger{}, // it only reports misuse of loaders, which are not used
	})
	if err != nil {
		return nil, fmt.Errorf("memory cache of %d bytes: %w", maxBytes, err)
	}
	return &Memory{entries: entries, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, limit: int(min(maxBytes/maxShare, math.MaxInt32))}, nil
}

func weight(value []byte) int { return len(value) + entryOverhead }

// Get returns the value of key, which must not be changed; nil if it is absent or has expired. It
// never fails.
func (m *Memory) Get(_ context.Context, key string) ([]byte, error) {
	e, _ := m.entries.GetIfPresent(m.slot(key))
	return e.value, nil
}

// Set stores val for ttl. If ttl is not positive, or the value is larger than an eighth of the
// cache, key is removed instead. It never fails.
func (m *Memory) Set(_ context.Context, key string, val []byte, ttl time.Duration) error {
	if ttl <= 0 || weight(val) > m.limit {
		m.entries.Invalidate(m.slot(key))
		return nil
	}
	if val == nil {
		val = []byte{} // present but empty
	}
	m.entries.Set(m.slot(key), kept{val, ttl})
	// The library itself evicts only after some hundred writes, which with large values is far
	// beyond the limit. A write follows a search, so there is time to evict now.
	m.entries.CleanUp()
	return nil
}

// Bytes returns the current size of the cache, counted as for its limit.
func (m *Memory) Bytes() int64 { return int64(m.entries.WeightedSize()) }

// Close empties the cache and stops its goroutines. Values set later may not expire.
func (m *Memory) Close() error {
	m.entries.StopAllGoroutines()
	m.entries.InvalidateAll()
	return nil
}
