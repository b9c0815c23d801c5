package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sidenote/retrieval"
)

// Limits of a WriteBehind.
const (
	behindWriters = 2
	behindEntries = 1024     // queued writes, divided between the writers
	behindBytes   = 16 << 20 // of queued keys and values
	behindTimeout = time.Second
)

// ErrDropped is wrapped by the error for a write that a WriteBehind drops.
var ErrDropped = errors.New("write dropped")

var (
	errQueueFull   = fmt.Errorf("%w: too much waits", ErrDropped)
	errQueueClosed = fmt.Errorf("%w: store is closed", ErrDropped)
)

// A WriteBehind is a Store that writes asynchronously: Set returns at once, however slow the next
// Store is, and a Get soon after may not see the value yet. Writes that fail or do not fit into
// the queue are lost. The values of one key are written in the order of their Sets, one at a time.
type WriteBehind struct {
	next    Store
	running context.Context // context of all writes; cancelled when Close gives up
	giveUp  context.CancelFunc
	writers sync.WaitGroup
	queues  [behindWriters]chan write // a key is always in the same queue

	mu     sync.Mutex // never held during a call of next
	bytes  int64      // of queued writes
	closed bool
}

// A write holds the arguments of a Set.
type write struct {
	key string
	val []byte
	ttl time.Duration
}

func (w write) size() int64 { return int64(len(w.key)) + int64(len(w.val)) }

// NewWriteBehind returns a WriteBehind that writes to next until it is closed.
func NewWriteBehind(next Store) *WriteBehind {
	b := &WriteBehind{next: next}
	b.running, b.giveUp = context.WithCancel(context.Background())
	for i := range b.queues {
		b.queues[i] = make(chan write, behindEntries/behindWriters)
		b.writers.Go(func() { b.work(b.queues[i]) })
	}
	return b
}

// Get asks the next Store, which may not have the latest values yet.
func (b *WriteBehind) Get(ctx context.Context, key string) ([]byte, error) {
	return b.next.Get(ctx, key)
}

// Set queues the write and returns at once; the context is ignored. The error wraps ErrDropped if
// the queue is full or b is closed.
func (b *WriteBehind) Set(_ context.Context, key string, val []byte, ttl time.Duration) error {
	w := write{key, val, ttl}
	queue := b.queues[retrieval.HashText(key)%behindWriters]
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errQueueClosed
	case b.bytes+w.size() > behindBytes:
		return errQueueFull
	}
	select {
	case queue <- w:
		b.bytes += w.size()
		return nil
	default:
		return errQueueFull
	}
}

// Close refuses new writes and completes the queued ones. If ctx ends first, it drops the queued
// writes, cancels the running ones and returns the cause. It returns when the writers have ended,
// so a Store that ignores its context can delay it indefinitely. It may be called again.
func (b *WriteBehind) Close(ctx context.Context) error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		for _, queue := range b.queues {
			close(queue)
		}
	}
	b.mu.Unlock()
	stop := context.AfterFunc(ctx, b.giveUp)
	b.writers.Wait()
	stop()
	if b.running.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// work makes the writes of a queue until it is closed and empty.
func (b *WriteBehind) work(queue <-chan write) {
	for w := range queue {
		b.mu.Lock()
		b.bytes -= w.size()
		b.mu.Unlock()
		if b.running.Err() == nil {
			_ = b.write(w) // the Store counts its errors
		}
	}
}

// write makes one write. A panic of the Store becomes an error.
func (b *WriteBehind) write(w write) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(b.running, behindTimeout)
	defer cancel()
	return b.next.Set(ctx, w.key, w.val, w.ttl)
}
