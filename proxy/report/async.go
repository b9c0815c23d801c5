package report

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/panics"
)

const (
	// asyncLines limits the lines that wait for a slow log: about 4 MiB of wide lines, and as much
	// again in a write that blocks.
	asyncLines = 8 << 10
	// gather is how long the first line waits for others to be written together with it. Waking a
	// goroutine and writing each line by itself would cost more than the rest of the log, and
	// after each write Go's scheduler checks every 20 µs for a millisecond whether another system
	// call blocks, so a short wait would slow down every request.
	gather = 25 * time.Millisecond
	// asyncKept is the largest capacity, in bytes, at which a buffer is reused.
	asyncKept = 1 << 20
)

// An AsyncWriter buffers writes and passes them on in batches, from its own goroutine. If the log
// blocks (a full disk, a pipe that nobody reads), lines are dropped and counted; requests never
// wait. It is safe for concurrent use.
type AsyncWriter struct {
	wake    chan struct{} // holds a value when run has to look for pending lines
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when everything is written
	dropped atomic.Int64

	mu     sync.Mutex
	text   []byte // pending lines
	lines  int    // number of pending lines
	closed bool
}

// NewAsyncWriter returns an AsyncWriter in front of w. Close stops it.
func NewAsyncWriter(w io.Writer) *AsyncWriter {
	a := &AsyncWriter{wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	panics.Go(nil, func() { a.run(w) }, func() { close(a.done) })
	return a
}

func (a *AsyncWriter) run(w io.Writer) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	var free []byte
	for closing := false; !closing; {
		select {
		case <-a.wake:
			timer.Reset(gather)
			select {
			case <-timer.C:
			case <-a.wake: // half of asyncLines are pending
			case <-a.closing:
			}
		case <-a.closing:
			closing = true
		}
		text, lines := a.swap(free[:0])
		if lines == 0 {
			free = text
			continue
		}
		if !write(w, text) {
			a.dropped.Add(int64(lines))
		}
		if free = text; cap(free) > asyncKept {
			free = nil
		}
	}
}

// write reports whether all of text was written. A panic of w counts as a failed
// write; there is no other log to report it to.
func write(w io.Writer, text []byte) (ok bool) {
	defer panics.Recover(nil, func() { ok = false })
	_, err := w.Write(text)
	return err == nil
}

// swap returns the pending lines and collects later ones in free.
func (a *AsyncWriter) swap(free []byte) (text []byte, lines int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, lines = a.text, a.lines
	a.text, a.lines = free, 0
	return text, lines
}

// Write copies p and never blocks. If the buffer is full, the line is dropped and counted; this is
// not an error, as callers could do nothing about it.
func (a *AsyncWriter) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.lines >= asyncLines {
		a.dropped.Add(1)
		return len(p), nil
	}
	a.text = append(a.text, p...)
	if a.lines++; a.lines == 1 || a.lines == asyncLines/2 {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// Dropped returns how many lines were lost.
func (a *AsyncWriter) Dropped() int64 { return a.dropped.Load() }

// Close writes the pending lines and returns when that is done or ctx ends. Later writes are
// dropped.
func (a *AsyncWriter) Close(ctx context.Context) error {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.closing)
	}
	a.mu.Unlock()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
