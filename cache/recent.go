package cache

import (
	"hash/maphash"
	"sync/atomic"

	"sidenote/retrieval"
)

// recent remembers queries that the nearest tier answered: their keys, and what their
// values decoded to, for stores that give the very same bytes again and again, as one
// in this process does. What everybody asks is then neither hashed nor decoded again,
// and is one Result for all. It is a small table without locks, in which a newcomer
// takes the place of what was there.
type recent struct {
	slots [256]atomic.Pointer[answered]
}

// answered is one of them. It holds on to its value, so that no other can come to lie
// where it does.
type answered struct {
	written string // the query with all its fields: nothing less tells two apart
	key     Key
	name    string // the key, as stores see it
	value   []byte
	res     retrieval.Result
}

// maxRecent is the largest value remembered, with its query, in bytes; all of them
// together take at most 16 MiB beside the store.
const maxRecent = 32 << 10

// recentSeed spreads queries over the table; it is made once and never changes.
var recentSeed = maphash.MakeSeed()

func (r *recent) slot(written []byte) *atomic.Pointer[answered] {
	return &r.slots[maphash.Bytes(recentSeed, written)%uint64(len(r.slots))]
}

// get returns what is remembered of a query, nil if that is nothing.
func (r *recent) get(written []byte) *answered {
	if a := r.slot(written).Load(); a != nil && a.written == string(written) {
		return a
	}
	return nil
}

// put remembers the answer to a query, which is what e's value decoded to.
func (r *recent) put(written []byte, e *entry, res retrieval.Result) {
	if len(written)+len(e.value) <= maxRecent {
		r.slot(written).Store(&answered{string(written), e.key, e.name, e.value, res})
	}
}

// decodes returns what value decoded to, if it is the very one that is remembered.
func (a *answered) decodes(value []byte) (res retrieval.Result, ok bool) {
	if a == nil || !same(a.value, value) {
		return res, false
	}
	return a.res, true
}

// same tells whether two slices are one and the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
