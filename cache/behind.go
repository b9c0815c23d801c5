package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// What the fields of BehindOptions mean if they are not positive.
const (
	DefaultBehindEntries = 1024
	DefaultBehindBytes   = 16 << 20
	DefaultBehindWriters = 2
	DefaultBehindTimeout = time.Second
)

// ErrBehind is wrapped by the error of a write that a Behind drops.
var ErrBehind = errors.New("write dropped")

var (
	errBehindFull   = fmt.Errorf("%w: too much waits", ErrBehind)
	errBehindClosed = fmt.Errorf("%w: store is closed", ErrBehind)
)

// A Behind is a Store that writes later: its Set returns at once, whatever the
// Store behind it does, and a Get soon after may not see the value yet. What it
// does not get to write is lost.
//
// Each write ends in one of four ways: it is made; Set returns ErrBehind; it is
// reported to Failed; or a later value of its key takes its place. The values
// of one key are written in the order of their Sets, never two at a time.
type Behind struct {
	next    Store
	o       BehindOptions
	running context.Context // of all writes; its end is that of a Close that gives up
	giveUp  context.CancelCauseFunc
	group   sync.WaitGroup // of writers

	mu          sync.Mutex       // never held during a call of next or Failed
	lines       map[string]*line // by key; those with neither a waiting nor a running write are not there
	first, last *line            // the lines whose turn comes, in order
	waiting     int              // writes
	bytes       int64            // of waiting writes
	runs        int              // writes
	writers     int              // goroutines; there is one whenever first is not nil
	closed      bool
	lost        int // writes, since giveUp
}

// BehindOptions bound a Behind. The default stands for what is not positive.
type BehindOptions struct {
	Entries int           // writes that may wait
	Bytes   int64         // of keys and values waiting
	Writers int           // writes at once
	Timeout time.Duration // of one write

	// Failed is told each write that Set took and that was not made. It is called
	// concurrently and with no lock held, but may not wait for Close; nil is nobody.
	Failed func(key string, err error)
}

// A write is what Set was given.
type write struct {
	key string
	val []byte
	ttl time.Duration
}

func (w write) size() int64 { return int64(len(w.key)) + int64(len(w.val)) }

// A line is where the writes of one key wait: the last one only, as it makes
// those before it void.
type line struct {
	write // if it waits
	waits bool
	next  *line
}

// NewBehind returns a Behind that writes to next. It has no goroutines while
// there is nothing to write.
func NewBehind(next Store, o BehindOptions) *Behind {
	o.Entries = positive(o.Entries, DefaultBehindEntries)
	o.Bytes = positive(o.Bytes, DefaultBehindBytes)
	o.Writers = positive(o.Writers, DefaultBehindWriters)
	o.Timeout = positive(o.Timeout, DefaultBehindTimeout)
	b := &Behind{next: next, o: o, lines: map[string]*line{}}
	b.running, b.giveUp = context.WithCancelCause(context.Background())
	return b
}

// positive returns v, or what stands for a v that is not positive.
func positive[T int | int64 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Get asks the Store behind, which may not have the latest values yet.
func (b *Behind) Get(ctx context.Context, key string) ([]byte, error) { return b.next.Get(ctx, key) }

// Set queues the write and returns at once; the context does not matter to it.
// The error is ErrBehind if there is no room or b is closed. Then an earlier
// value of key that waits is written as if this one had never been.
func (b *Behind) Set(_ context.Context, key string, val []byte, ttl time.Duration) error {
	w := write{key, val, ttl}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBehindClosed
	}
	l := b.lines[key]
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
	l = &line{write: w, waits: true}
	b.lines[key] = l
	b.push(l)
	if b.writers < b.o.Writers {
		b.writers++
		b.group.Go(b.work)
	}
	return nil
}

// Pending returns the number of writes that wait or run. At none, all that Set
// took is written or reported, unless a Close that gives up is still at it.
func (b *Behind) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting + b.runs
}

// Close takes no more writes and makes those that wait. When ctx ends first, it
// drops what waits, cancels what runs, and the error tells how many writes were
// lost. It returns when all goroutines have ended, which takes a Store behind
// that is deaf to its context as long as it likes. It may be called again.
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
	for key, l := range b.lines {
		if l.waits {
			dropped = append(dropped, key)
			l.write, l.waits = write{}, false
		}
	}
	clear(b.lines)
	b.first, b.last = nil, nil
	b.waiting, b.bytes = 0, 0
	b.lost += len(dropped)
	b.mu.Unlock()
	err := fmt.Errorf("%w: %w", errBehindClosed, cause)
	for _, key := range dropped {
		b.failed(key, err)
	}
}

// work writes until there is nothing left whose turn comes.
func (b *Behind) work() {
	for l, w := b.take(); l != nil; l, w = b.take() {
		err := b.write(w)
		if err != nil {
			b.failed(w.key, err)
		}
		b.done(l, w.key, err)
	}
}

// take returns the next write and its line, which until done is in no order, or
// nil when the writer is to end.
func (b *Behind) take() (*line, write) {
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
	*l = line{}
	b.runs++
	b.waiting--
	b.bytes -= w.size()
	return l, w
}

// write makes one write. A panic in there is an error like any other.
func (b *Behind) write(w write) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(b.running, b.o.Timeout)
	defer cancel()
	return b.next.Set(ctx, w.key, w.val, w.ttl)
}

// done ends a write of l. What came for its key meanwhile queues up at the end.
func (b *Behind) done(l *line, key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs--
	if err != nil && b.running.Err() != nil {
		b.lost++
	}
	if l.waits {
		b.push(l)
	} else {
		delete(b.lines, key)
	}
}

// push puts l at the end of those whose turn comes.
func (b *Behind) push(l *line) {
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
