package transport

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport/tcp"
)

// A watch is the context of a client's request, see Watch. Most are used only through Err, so the
// channel of Done is created on demand.
type watch struct {
	parent context.Context
	client *clientConn

	mu     sync.Mutex
	began  bool
	left   bool            // the client left
	ended  bool            // the handler has returned
	stop   func()          // stops a watch that has its own goroutine; else nil
	called bool            // clientConn.call is in use
	calls  []*upstreamCall // calls made with this context or one derived from it
	first  [1]*upstreamCall
	waited context.Context // provides the channel; nil before Done
	cancel context.CancelFunc
}

type watchKey struct{}

// Deadline implements context.Context.
func (w *watch) Deadline() (time.Time, bool) { return w.parent.Deadline() }

// Done implements context.Context.
func (w *watch) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waited == nil {
		w.waited, w.cancel = context.WithCancel(w.parent)
		if w.left || w.ended {
			w.cancel()
		}
	}
	return w.waited.Done()
}

// Err implements context.Context.
func (w *watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left || w.ended {
		return context.Canceled
	}
	return w.parent.Err()
}

// Value implements context.Context.
func (w *watch) Value(key any) any {
	if key == (watchKey{}) {
		return w
	}
	w.mu.Lock()
	waited := w.waited
	w.mu.Unlock()
	if waited != nil {
		return waited.Value(key)
	}
	return w.parent.Value(key)
}

// watchOf returns the watch that ctx was derived from, or nil.
func watchOf(ctx context.Context) *watch {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return w
}

// Watch returns a context for work on the request of ctx. It ends with parent, when the client
// hangs up or closes its side, and when the handler has returned. On systems other than Linux a
// hang-up is noticed only once the request's body has been read; until then the reader of the body
// notices it. All calls for one request return the same context.
func Watch(ctx *fasthttp.RequestCtx, parent context.Context) context.Context {
	client := clientOf(ctx)
	if client.state.watch != nil {
		return client.state.watch
	}
	w := &watch{client: client, parent: parent}
	w.calls = w.first[:0]
	client.state.watch = w
	if client.watched() || client.state.bodyRead {
		w.begin()
	}
	return w
}

// begin makes a hang-up of the client end w, even an earlier one. Unless the hangup watcher watches
// the client, the client's connection must not be read until pause or end.
func (w *watch) begin() {
	w.mu.Lock()
	began := w.began || w.ended
	if w.began = true; !began && !w.client.watched() {
		w.stop = tcp.WatchHangup(w.client, w.client.guard.hungUp, w.client.guard.options.Panicked, w.leave)
	}
	w.mu.Unlock()
	if began || !w.client.watched() {
		return
	}
	w.client.watching.Store(w)
	if w.client.gone.Load() {
		w.leave()
	}
}

// leave ends w because the client has left.
func (w *watch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.left = true
	if w.cancel != nil {
		w.cancel()
	}
	for _, x := range w.calls {
		x.abort()
	}
}

// pause stops watching until begin is called again, so that the client's connection can be read. It
// does nothing if the hangup watcher watches the client.
func (w *watch) pause() {
	w.mu.Lock()
	stop := w.stop
	if stop != nil {
		w.began, w.stop = false, nil
	}
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// remove lets x outlive the handler.
func (w *watch) remove(x *upstreamCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = slices.DeleteFunc(w.calls, func(other *upstreamCall) bool { return other == x })
}

// newCall returns a call that ends with w. The first call of a request that has w itself as its
// context uses memory of the connection, which the next request reuses. With any other context,
// abort may still be called when the request is over.
func (w *watch) newCall(itself bool) *upstreamCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &w.client.call
	if !itself || w.called {
		x = new(upstreamCall)
	}
	w.called = w.called || itself
	*x = upstreamCall{watch: w, progress: progress{aborted: w.left}}
	w.calls = append(w.calls, x)
	return x
}

// end ends w and the calls that the handler left open.
func (w *watch) end() {
	w.client.watching.Store(nil)
	w.pause()
	w.mu.Lock()
	w.ended = true
	calls := w.calls
	w.calls = nil
	if w.cancel != nil {
		w.cancel()
	}
	w.mu.Unlock()
	for _, x := range calls {
		x.end(false)
		if x == &w.client.call {
			*x = upstreamCall{} // hold no memory while the connection is idle
		}
	}
}
