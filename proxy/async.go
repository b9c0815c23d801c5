package proxy

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

// asyncLines bounds what waits for a slow log: about 4 MiB of wide lines.
const asyncLines = 8 << 10

// An AsyncWriter passes writes on from a goroutine of its own, so that a log
// that blocks (a full disk, a pipe nobody reads) never blocks the data path:
// then lines are dropped and counted. It is safe for concurrent use.
type AsyncWriter struct {
	lines   chan []byte
	done    chan struct{}
	dropped atomic.Int64

	mu     sync.RWMutex // closed is not set between its check and a send
	closed bool
}

// NewAsyncWriter returns a writer in front of w. Close ends it.
func NewAsyncWriter(w io.Writer) *AsyncWriter {
	a := &AsyncWriter{lines: make(chan []byte, asyncLines), done: make(chan struct{})}
	go a.run(w)
	return a
}

func (a *AsyncWriter) run(w io.Writer) {
	defer close(a.done)
	for line := range a.lines {
		if _, err := w.Write(line); err != nil {
			a.dropped.Add(1)
		}
	}
}

// Write takes a copy of p and never blocks. A line that found no room is gone
// and counted, and not an error: nobody could do anything about it.
func (a *AsyncWriter) Write(p []byte) (int, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		a.dropped.Add(1)
		return len(p), nil
	}
	select {
	case a.lines <- append([]byte(nil), p...):
	default:
		a.dropped.Add(1)
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
		close(a.lines)
	}
	a.mu.Unlock()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
