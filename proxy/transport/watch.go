package transport

import (
	"context"
	"slices"
	"sync"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport/tcp"
)

// A watch is the context of a client's request, see Watch.
type watch struct {
	context.Context
	cancel context.CancelFunc
	client *clientConn

	mu    sync.Mutex
	began bool
	ended bool            // the handler has returned
	stop  func()          // ends a watch that has a goroutine of its own; else nil
	calls []*upstreamCall // made with this context or one made from it
	first [1]*upstreamCall
}

type watchKey struct{}

// Value implements context.Context.
func (w *watch) Value(key any) any {
	if key == (watchKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// watchOf returns the watch that ctx is or was made from, nil if there is none.
func watchOf(ctx context.Context) *watch {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return w
}

// Watch returns a context for what is done for the request of ctx. It ends with parent,
// when the client hangs up, even if it only closes its own side, and when the handler has
// returned. On systems other than Linux, a hang-up is noticed only once the request's body
// has been read: until then whoever reads the body notices it. All calls for one request
// return the same context.
func Watch(ctx *fasthttp.RequestCtx, parent context.Context) context.Context {
	client := clientOf(ctx)
	if client.state.watch != nil {
		return client.state.watch
	}
	w := &watch{client: client}
	w.calls = w.first[:0]
	w.Context, w.cancel = context.WithCancel(parent)
	client.state.watch = w
	if client.watched() || client.state.bodyRead {
		w.begin()
	}
	return w
}

// begin makes a hang-up of the client, even one that was before, end w. Unless the hangup
// watcher sees the client, nobody may read from the client's connection until pause or end.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began || w.ended {
		return
	}
	w.began = true
	if !w.client.watched() {
		w.stop = tcp.WatchHangup(w.client, w.client.guard.hungUp, w.client.guard.options.Panicked, w.cancel)
		return
	}
	w.client.watching.Store(w)
	if w.client.gone.Load() {
		w.cancel()
	}
}

// pause ends the watch until begin is called again, so that the client's connection can be
// read from. It does nothing if the hangup watcher sees the client.
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

// remove makes x outlive the handler.
func (w *watch) remove(x *upstreamCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = slices.DeleteFunc(w.calls, func(other *upstreamCall) bool { return other == x })
}

// add makes x end with the handler, if nothing ends it before.
func (w *watch) add(x *upstreamCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, x)
}

// end ends w and the calls that the handler has left open.
func (w *watch) end() {
	w.client.watching.Store(nil)
	w.pause()
	w.mu.Lock()
	w.ended = true
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	w.cancel()
	for _, x := range calls {
		x.end(false)
	}
}
