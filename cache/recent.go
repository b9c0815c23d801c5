package cache

import (
	"encoding/binary"
	"sync/atomic"

	"sidenote/retrieval"
)

// recent remembers what values decoded to, for stores that give the very same
// bytes again and again, as one in this process does: what everybody asks is then
// decoded once, and is one Result for all. It is a small table without locks, in
// which a newcomer takes the place of what was there.
type recent struct {
	slots [256]atomic.Pointer[decoded]
}

// decoded holds on to its value, so that no other can come to lie where it does.
type decoded struct {
	key   Key
	value []byte
	res   retrieval.Result
}

// maxRecent is the largest value remembered, in bytes; all of them together take
// at most 16 MiB beside the store.
const maxRecent = 32 << 10

func (r *recent) decode(key Key, value []byte) (retrieval.Result, error) {
	slot := &r.slots[binary.LittleEndian.Uint64(key.Digest[:])%uint64(len(r.slots))]
	if d := slot.Load(); d != nil && d.key == key && same(d.value, value) {
		return d.res, nil
	}
	res, err := Decode(key, value)
	if err == nil && len(value) <= maxRecent {
		slot.Store(&decoded{key, value, res})
	}
	return res, err
}

// same tells whether two slices are one and the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
