package analysis

import (
	"cmp"
	"errors"
	"hash/maphash"
)

// ErrFull says that the limit of a Vocabulary is reached.
var ErrFull = errors.New("too many different terms")

// A table numbers strings from 0 in the order in which they are added. It takes about a third of
// the memory of a map: all strings are in one block, and a slot holds a number instead of a string
// header. The zero table is empty.
type table struct {
	limit int // of size in bytes; 0: DefaultLimit
	seed  maphash.Seed
	slots []uint64 // open addressing: upper half of the hash and number + 1; 0 is free
	ends  []uint32 // where each string ends in block
	block []byte
}

// DefaultLimit is the default limit of the size of a Vocabulary's terms, in bytes. It is well
// below 4 GiB, the range of a table's 32-bit offsets.
const DefaultLimit = 1 << 30

// perString is the memory per string in addition to its bytes: an end, and slots, of which 3/8 to
// 3/4 are used.
const perString = 20

func (t *table) len() int { return len(t.ends) }

// size returns the approximate size of the strings in bytes.
func (t *table) size() int { return len(t.block) + perString*len(t.ends) }

// at returns the string with the given number.
func (t *table) at(id uint32) []byte {
	start := uint32(0)
	if id > 0 {
		start = t.ends[id-1]
	}
	return t.block[start:t.ends[id]]
}

// add returns the number of s, a new one if s is new. The error is ErrFull.
func (t *table) add(s string) (id uint32, isNew bool, err error) {
	if 4*(len(t.ends)+1) > 3*len(t.slots) {
		t.grow()
	}
	hash := maphash.String(t.seed, s)
	id, slot, ok := t.probe(s, hash)
	if ok {
		return id, false, nil
	}
	if t.size()+len(s)+perString > cmp.Or(t.limit, DefaultLimit) {
		return 0, false, ErrFull
	}
	id = uint32(len(t.ends))
	t.block = append(t.block, s...)
	t.ends = append(t.ends, uint32(len(t.block)))
	t.slots[slot] = hash>>32<<32 | uint64(id+1)
	return id, true, nil
}

// probe returns the number and slot of s, or the free slot where it belongs.
func (t *table) probe(s string, hash uint64) (id uint32, slot uint64, ok bool) {
	mask := uint64(len(t.slots) - 1)
	for slot = hash & mask; t.slots[slot] != 0; slot = (slot + 1) & mask {
		if t.slots[slot]>>32 == hash>>32 {
			if id = uint32(t.slots[slot]) - 1; string(t.at(id)) == s {
				return id, slot, true
			}
		}
	}
	return 0, slot, false
}

func (t *table) grow() {
	if len(t.slots) == 0 {
		t.seed = maphash.MakeSeed()
	}
	t.slots = make([]uint64, max(64, 2*len(t.slots)))
	for id := range uint32(len(t.ends)) {
		s := string(t.at(id))
		hash := maphash.String(t.seed, s)
		_, slot, _ := t.probe(s, hash)
		t.slots[slot] = hash>>32<<32 | uint64(id+1)
	}
}

// reset empties the table and keeps its memory.
func (t *table) reset() {
	clear(t.slots)
	t.ends, t.block = t.ends[:0], t.block[:0]
}
