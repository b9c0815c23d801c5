package cache

import (
	"hash/maphash"
	"sync/atomic"

	"sidenote/retrieval"
)

// recent remembers queries that the nearest tier answered: their keys and their decoded
// results. It helps with stores in this process, which return the very same bytes
// again: a popular query is then neither hashed nor decoded again, and all its callers
// share one Result. It is a small table without locks, in which a new entry replaces
// the one in its slot.
type recent struct {
	slots [256]atomic.Pointer[recentEntry]
}

// A recentEntry is an entry of recent. It keeps its value alive, so that no other value can
// take its address.
type recentEntry struct {
	written string // the query with all its fields, which is what entries are compared by
	key     Key
	name    string // the key in the form of stores
	value   []byte
	res     retrieval.Result
}

// maxRecent is the largest sum of value and query, in bytes, that is remembered. All
// entries together take at most 16 MiB besides the store.
const maxRecent = 32 << 10

// recentSeed seeds the hash of queries. It never changes in a process.
var recentSeed = maphash.MakeSeed()

func (r *recent) slot(written []byte) *atomic.Pointer[recentEntry] {
	return &r.slots[maphash.Bytes(recentSeed, written)%uint64(len(r.slots))]
}

// get returns the entry of a query, nil if there is none.
func (r *recent) get(written []byte) *recentEntry {
	if a := r.slot(written).Load(); a != nil && a.written == string(written) {
		return a
	}
	return nil
}

// put remembers the result of a query, decoded from e's value.
func (r *recent) put(written []byte, e *entry, res retrieval.Result) {
	if len(written)+len(e.value) <= maxRecent {
		r.slot(written).Store(&recentEntry{string(written), e.key, e.name, e.value, res})
	}
}

// decodes returns the remembered result if value is the very value that it was decoded
// from.
func (a *recentEntry) decodes(value []byte) (res retrieval.Result, ok bool) {
	if a == nil || !same(a.value, value) {
		return res, false
	}
	return a.res, true
}

// same tells whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
