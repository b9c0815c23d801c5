package proxy

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/panics"
)

const (
	// asyncLines bounds what waits for a slow log: about 4 MiB of wide lines, and
	// as much again in the write that is stuck.
	asyncLines = 8 << 10
	// gather is how long lines wait for others to be written with. To wake a
	// goroutine and write for each line would cost more than all else of a log, and
	// after each write Go's scheduler looks for a millisecond, every 20 µs, whether
	// another one lasts: short waits cost every request.
	gather = 25 * time.Millisecond
	// asyncKept is how large a buffer is used again.
	asyncKept = 1 << 20
)

// An AsyncWriter passes writes on from a goroutine of its own, several in one, so
// that a log that blocks (a full disk, a pipe nobody reads) never blocks the data
// path: then lines are dropped and counted. It is safe for concurrent use.
type AsyncWriter struct {
	wake    chan struct{} // holds one when something waits that was not seen to
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when all is written
	dropped atomic.Int64

	mu     sync.Mutex
	text   []byte // lines that wait
	lines  int    // how many those are
	closed bool
}

// NewAsyncWriter returns a writer in front of w. Close ends it.
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
			case <-a.wake: // there are many already
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

// write reports whether all of text was written. There is no log for a panic of the log.
func write(w io.Writer, text []byte) (ok bool) {
	defer panics.Recover(nil, func() { ok = false })
	_, err := w.Write(text)
	return err == nil
}

// swap takes the lines that wait and leaves free for those to come.
func (a *AsyncWriter) swap(free []byte) (text []byte, lines int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, lines = a.text, a.lines
	a.text, a.lines = free, 0
	return text, lines
}

// Write takes a copy of p and never blocks. A line that found no room is gone
// and counted, and not an error: nobody could do anything about it.
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

// Dropped counts the writes that were lost.
func (a *AsyncWriter) Dropped() int64 { return a.dropped.Load() }

// Close passes on what waits and returns when that is done or ctx ends. Later
// writes are dropped.
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
