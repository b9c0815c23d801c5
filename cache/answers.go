package cache

import "sidenote/retrieval"

// answers remembers what the nearest tier answered: keys and decoded values. It helps
// with stores in this process, which return the very same bytes again: a popular query
// is then neither hashed nor decoded again, and all its callers share one value. A popular
// question takes 4 µs with it and 62 without (BenchmarkWarm of the engine).
type answers[V any] struct{ table retrieval.Recent[answer[V]] }

// An answer keeps its value alive, so that no other value can take its address.
type answer[V any] struct {
	id      string // what the key's digest is made of, which is what answers are compared by
	key     Key
	name    string // the key in the form of stores
	value   []byte
	decoded V
}

// maxAnswer is the largest sum of a value's size and its id, in bytes, that is remembered. All answers
// together take at most 20 MiB besides the store.
const maxAnswer = 40 << 10

// get returns the answer for an id, nil if there is none.
func (r *answers[V]) get(id []byte) *answer[V] {
	if a := r.table.At(retrieval.HashBytes(id)); a != nil && a.id == string(id) {
		return a
	}
	return nil
}

// put remembers what was made of l's value.
func (r *answers[V]) put(id []byte, l *Lookup[V], decoded V) {
	r.table.Put(retrieval.HashBytes(id), &answer[V]{string(id), l.key, l.name, l.value, decoded})
}

// same tells whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
