package retrieval

import (
	"hash/maphash"
	"sync/atomic"
)

// size is the number of slots of a Recent.
const size = 512

// A Recent is a small lock-free table in which a new value replaces the one in its slot. Different
// keys may share a slot, so a value must hold its key, which callers compare. The zero Recent is
// empty and ready to use.
type Recent[V any] struct{ slots [size]atomic.Pointer[V] }

// At returns the value in the slot of a hash, nil if there is none. It may belong to another key.
func (t *Recent[V]) At(hash uint64) *V {
	if plain {
		return nil
	}
	return t.slots[hash%size].Load()
}

// Put stores v in the slot of a hash. v must not be modified afterwards.
func (t *Recent[V]) Put(hash uint64, v *V) { t.slots[hash%size].Store(v) }

// seed is the hash seed of this process.
var seed = maphash.MakeSeed()

// Hash returns the hash of a key.
func Hash[K comparable](key K) uint64 { return maphash.Comparable(seed, key) }

// HashText is a faster Hash for strings.
func HashText(text string) uint64 { return maphash.String(seed, text) }

// HashBytes returns HashText of the same bytes.
func HashBytes(text []byte) uint64 { return maphash.Bytes(seed, text) }
