package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of BehindOptions.
const (
	DefaultBehindEntries = 1024
	DefaultBehindBytes   = 16 << 20
	DefaultBehindWriters = 2
	DefaultBehindTimeout = time.Second
)

// ErrBehind is wrapped by the error for a write that a Behind drops.
var ErrBehind = errors.New("write dropped")

var (
	errBehindFull   = fmt.Errorf("%w: too much waits", ErrBehind)
	errBehindClosed = fmt.Errorf("%w: store is closed", ErrBehind)
)

// A Behind is a Store that writes later: its Set returns at once, however slow the
// Store behind it is, and a Get soon after may not see the value yet. Writes that it
// cannot make are lost.
//
// Each write ends in one of four ways: it is made; Set returns ErrBehind; it is
// reported to Failed; or a later value of its key replaces it. The values of one key
// are written in the order of their Sets, never two at a time.
type Behind struct {
	next    Store
	o       BehindOptions
	running context.Context // context of all writes; cancelled when Close gives up
	giveUp  context.CancelCauseFunc
	group   sync.WaitGroup // of writers

	mu          sync.Mutex           // never held during a call of next or Failed
	keys        map[string]*keyState // by key; a key is present while a write of it waits or runs
	first, last *keyState            // queue of the keys with a waiting write and none that runs
	waiting     int                  // writes
	bytes       int64                // of waiting writes
	runs        int                  // writes
	writers     int                  // goroutines; at least one while first is not nil
	closed      bool
	lost        int // writes lost since giveUp
}

// BehindOptions limit a Behind. Fields that are not positive mean the default.
type BehindOptions struct {
	Entries int           // writes that may wait
	Bytes   int64         // of keys and values waiting
	Writers int           // writes at once
	Timeout time.Duration // of one write

	// Failed is called with each write that Set accepted and that was not made. Calls
	// are concurrent and hold no lock. It must not wait for Close. It may be nil.
	Failed func(key string, err error)
}

// A write holds the arguments of a Set.
type write struct {
	key string
	val []byte
	ttl time.Duration
}

func (w write) size() int64 { return int64(len(w.key)) + int64(len(w.val)) }

// A keyState holds the waiting write of one key. There is at most one, because a later
// write replaces an earlier one.
type keyState struct {
	write // valid if waits is set
	waits bool
	next  *keyState
}

// NewBehind returns a Behind that writes to next. It has no goroutines while
// there is nothing to write.
func NewBehind(next Store, o BehindOptions) *Behind {
	o.Entries = positive(o.Entries, DefaultBehindEntries)
	o.Bytes = positive(o.Bytes, DefaultBehindBytes)
	o.Writers = positive(o.Writers, DefaultBehindWriters)
	o.Timeout = positive(o.Timeout, DefaultBehindTimeout)
	b := &Behind{next: next, o: o, keys: map[string]*keyState{}}
	b.running, b.giveUp = context.WithCancelCause(context.Background())
	return b
}

// positive returns v, or otherwise if v is not positive.
func positive[T int | int64 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Get asks the Store behind, which may not have the latest values yet.
func (b *Behind) Get(ctx context.Context, key string) ([]byte, error) { return b.next.Get(ctx, key) }

// Set queues the write and returns at once; the context is ignored. The error is
// ErrBehind if the queue is full or b is closed; an earlier value of key that waits is
// then still written.
func (b *Behind) Set(_ context.Context, key string, val []byte, ttl time.Duration) error {
	w := write{key, val, ttl}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBehindClosed
	}
	l := b.keys[key]
	entries, size := 1, w.size()
	if l != nil && l.waits {
		entries, size = 0, size-l.size()
	}
	if b.waiting+entries > b.o.Entries || b.bytes+size > b.o.Bytes {
		return errBehindFull
	}
	b.waiting += entries
	b.bytes += size
	if l != nil {
		l.write, l.waits = w, true
		return nil
	}
	l = &keyState{write: w, waits: true}
	b.keys[key] = l
	b.push(l)
	if b.writers < b.o.Writers {
		b.writers++
		b.group.Go(b.work)
	}
	return nil
}

// Pending returns the number of writes that wait or run. At zero, every write that Set
// accepted has been made or reported, unless a Close that gives up is still reporting.
func (b *Behind) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting + b.runs
}

// Close refuses new writes and makes those that wait. If ctx ends first, it drops the
// waiting writes, cancels the running ones and returns an error with the number of lost
// writes. It returns when all goroutines have ended, so a Store that ignores its
// context can delay it without limit. It may be called again.
func (b *Behind) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		b.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		b.drop(context.Cause(ctx))
		<-ended
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost > 0 {
		return fmt.Errorf("close: %d writes lost: %w", b.lost, context.Cause(b.running))
	}
	return nil
}

// drop empties the queue and cancels the writes that run.
func (b *Behind) drop(cause error) {
	b.mu.Lock()
	b.giveUp(cause)
	var dropped []string
	for key, l := range b.keys {
		if l.waits {
			dropped = append(dropped, key)
			l.write, l.waits = write{}, false
		}
	}
	clear(b.keys)
	b.first, b.last = nil, nil
	b.waiting, b.bytes = 0, 0
	b.lost += len(dropped)
	b.mu.Unlock()
	err := fmt.Errorf("%w: %w", errBehindClosed, cause)
	for _, key := range dropped {
		b.failed(key, err)
	}
}

// work makes queued writes until the queue is empty.
func (b *Behind) work() {
	for l, w := b.take(); l != nil; l, w = b.take() {
		err := b.write(w)
		if err != nil {
			b.failed(w.key, err)
		}
		b.done(l, w.key, err)
	}
}

// take removes the next key from the queue and returns it with its write; the line is
// queued again by done if another write came. It returns nil when the writer is to end.
func (b *Behind) take() (*keyState, write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.first
	if l == nil {
		b.writers--
		return nil, write{}
	}
	if b.first = l.next; b.first == nil {
		b.last = nil
	}
	w := l.write
	*l = keyState{}
	b.runs++
	b.waiting--
	b.bytes -= w.size()
	return l, w
}

// write makes one write. A panic of the Store becomes an error.
func (b *Behind) write(w write) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(b.running, b.o.Timeout)
	defer cancel()
	return b.next.Set(ctx, w.key, w.val, w.ttl)
}

// done ends a write of l. If another write of its key came meanwhile, l goes to the end
// of the queue.
func (b *Behind) done(l *keyState, key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs--
	if err != nil && b.running.Err() != nil {
		b.lost++
	}
	if l.waits {
		b.push(l)
	} else {
		delete(b.keys, key)
	}
}

// push appends l to the queue.
func (b *Behind) push(l *keyState) {
	if b.last == nil {
		b.first = l
	} else {
		b.last.next = l
	}
	b.last = l
}

func (b *Behind) failed(key string, err error) {
	if b.o.Failed != nil {
		b.o.Failed(key, err)
	}
}
