package retrieval

import (
	"hash/maphash"
	"sync/atomic"
)

// size is the number of slots of a Table.
const size = 512

// A Recent is a small table without locks, in which a new value replaces the one in its
// slot. Different keys may have the same slot, so a value holds its key, and callers
// compare that. The zero Recent is empty and ready for use.
type Recent[V any] struct{ slots [size]atomic.Pointer[V] }

// At returns the value in the slot of a hash, nil if there is none. It may be another key's.
func (t *Recent[V]) At(hash uint64) *V {
	if plain {
		return nil
	}
	return t.slots[hash%size].Load()
}

// Put puts v into the slot of a hash. Nobody changes it afterwards.
func (t *Recent[V]) Put(hash uint64, v *V) { t.slots[hash%size].Store(v) }

// seed spreads keys over slots; it never changes in a process.
var seed = maphash.MakeSeed()

// Hash returns the hash of a key.
func Hash[K comparable](key K) uint64 { return maphash.Comparable(seed, key) }

// HashText is Hash of a text, which takes less time.
func HashText(text string) uint64 { return maphash.String(seed, text) }

// HashBytes is HashText of the same bytes.
func HashBytes(text []byte) uint64 { return maphash.Bytes(seed, text) }
