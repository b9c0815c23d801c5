package engine

import (
	"context"
	"sync"

	"sidenote/proxy/panics"
)

// tasks are what runs in the background until close.
type tasks struct {
	panicked panics.Handler

	mu      sync.Mutex // held to start one
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newTasks(ctx context.Context, panicked panics.Handler) *tasks {
	t := &tasks{panicked: panicked}
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// start runs f unless the tasks are being closed.
func (t *tasks) start(f func(ctx context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() == nil {
		t.running.Add(1)
		panics.Go(t.panicked, func() { f(t.ctx) }, t.running.Done)
	}
}

// close ends all tasks and waits for them; none starts afterwards.
func (t *tasks) close() {
	t.mu.Lock()
	t.cancel()
	t.mu.Unlock()
	t.running.Wait()
}
