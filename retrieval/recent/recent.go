// Package recent remembers what was made lately, for callers that would otherwise make the
// same again for each of many equal requests. It exists for speed alone: with the build tag
// sidenote_plain nothing is remembered, and benchmarks show what each of its uses buys;
// together they let a popular question of 20 KB take 5 µs in place of 60 (BenchmarkWarm of
// the engine).
package recent

import (
	"hash/maphash"
	"sync/atomic"
)

// size is the number of slots of a Table.
const size = 512

// A Table is a small table without locks, in which a new value replaces the one in its
// slot. Different keys may have the same slot, so a value holds its key, and callers
// compare that. The zero Table is empty and ready for use.
type Table[V any] struct{ slots [size]atomic.Pointer[V] }

// At returns the value in the slot of a hash, nil if there is none. It may be another key's.
func (t *Table[V]) At(hash uint64) *V {
	if plain {
		return nil
	}
	return t.slots[hash%size].Load()
}

// Put puts v into the slot of a hash. Nobody changes it afterwards.
func (t *Table[V]) Put(hash uint64, v *V) { t.slots[hash%size].Store(v) }

// seed spreads keys over slots; it never changes in a process.
var seed = maphash.MakeSeed()

// Hash returns the hash of a key.
func Hash[K comparable](key K) uint64 { return maphash.Comparable(seed, key) }

// HashText is Hash of a text, which takes less time.
func HashText(text string) uint64 { return maphash.String(seed, text) }

// HashBytes is HashText of the same bytes.
func HashBytes(text []byte) uint64 { return maphash.Bytes(seed, text) }
