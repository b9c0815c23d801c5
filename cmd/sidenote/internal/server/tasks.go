package server

import (
	"context"
	"sync"

	"sidenote/proxy/panics"
)

// Tasks run in the background until Close.
type Tasks struct {
	panicked panics.Handler

	mu      sync.Mutex // held to start a task
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// NewTasks returns tasks whose context has the values of ctx but does not end with it.
func NewTasks(ctx context.Context, panicked panics.Handler) *Tasks {
	t := &Tasks{panicked: panicked}
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// Start runs f in the background unless the tasks are being closed.
func (t *Tasks) Start(f func(ctx context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() == nil {
		t.running.Add(1)
		panics.Go(t.panicked, func() { f(t.ctx) }, t.running.Done)
	}
}

// Close cancels all tasks and waits for them; none starts afterwards.
func (t *Tasks) Close() {
	t.mu.Lock()
	t.cancel()
	t.mu.Unlock()
	t.running.Wait()
}
