package explain

// A fifo holds the last values that were added, as many and as large as it may.
type fifo[T any] struct {
	slots    []slot[T] // a circle
	next, n  int       // the slot of the next value, and how many before it hold one
	bytes    int       // of all values
	maxBytes int
}

type slot[T any] struct {
	value T
	bytes int
}

// newFIFO returns one for n values of maxBytes together. Values are smaller than that.
func newFIFO[T any](n, maxBytes int) fifo[T] {
	return fifo[T]{slots: make([]slot[T], n), maxBytes: maxBytes}
}

// add drops the oldest values where that is needed for one more of that many bytes, and
// returns where the new one is to be put; an old one may stand there.
func (q *fifo[T]) add(bytes int) *T {
	s := &q.slots[q.next]
	for q.n == len(q.slots) || q.n > 0 && q.bytes+bytes > q.maxBytes {
		oldest := q.at(q.n)
		q.bytes -= oldest.bytes
		if q.n--; oldest != s {
			*oldest = slot[T]{}
		}
	}
	q.next = (q.next + 1) % len(q.slots)
	q.n++
	q.bytes += bytes
	s.bytes = bytes
	return &s.value
}

// at returns the slot of the value that was added as the i-th last, from 1.
func (q *fifo[T]) at(i int) *slot[T] { return &q.slots[(q.next+len(q.slots)-i)%len(q.slots)] }

// last returns the value that was added last of those that match, nil if none does.
func (q *fifo[T]) last(match func(*T) bool) *T {
	for i := 1; i <= q.n; i++ {
		if s := q.at(i); match(&s.value) {
			return &s.value
		}
	}
	return nil
}
