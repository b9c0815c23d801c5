package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/tcp"
)

const (
	// skipFor is how long a base URL that could not be connected to is tried last.
	skipFor = 10 * time.Second
	// quiet is how long nothing is heard of a server until Check connects to it.
	quiet = 30 * time.Second
	// checkWait limits one connection of Check.
	checkWait = 5 * time.Second
)

// reach says whether connections to a server succeed. The zero value knows nothing.
type reach struct {
	heard  atomic.Int64            // tcp.Clock of the last connection or answer; 0: none
	failed atomic.Pointer[failure] // nil if the last attempt to connect succeeded
}

// A failure is an attempt to connect that failed, after which none succeeded.
type failure struct {
	err   error
	at    time.Duration // by tcp.Clock
	since time.Time     // of the first of consecutive failures
}

// note records what a call or an attempt to connect says of the server. err is nil or an *Error.
func (r *reach) note(now time.Duration, err error) {
	switch {
	case err == nil:
		r.heard.Store(int64(max(now, 1)))
		if r.failed.Load() != nil {
			r.failed.Store(nil)
		}
	case Unsent(err):
		f := &failure{err, tcp.Clock(), time.Now()}
		if before := r.failed.Load(); before != nil {
			f.since = before.since
		}
		r.failed.Store(f)
	}
}

// skipped reports whether the last attempt to connect failed a short time ago.
func (r *reach) skipped(now time.Duration) bool {
	f := r.failed.Load()
	return f != nil && now-f.at < skipFor
}

// due reports whether Check should connect: the last attempt failed, or nothing was heard lately.
func (r *reach) due(now time.Duration) bool {
	heard := time.Duration(r.heard.Load())
	return r.failed.Load() != nil || heard == 0 || now-heard >= quiet
}

// Bases is a client of one API at one or more base URLs. Requests go to the first that a connection
// can be made to: it is no load balancer.
type Bases struct{ list []*Upstream }

// NewBases returns a client of the API at one or more base URLs. It does not connect. The error is
// that of NewUpstream.
func NewBases(list ...Config) (*Bases, error) {
	b := &Bases{}
	for _, c := range list {
		u, err := NewUpstream(c)
		if err != nil {
			b.Close()
			return nil, err
		}
		b.list = append(b.list, u)
	}
	return b, nil
}

// Do is Upstream.Do. If no connection to a base URL can be made, and so nothing was sent, it tries
// the next one. Those that failed in the last 10 s are tried last.
func (b *Bases) Do(ctx context.Context, c Call) (*Answer, error) {
	if len(b.list) == 1 {
		return b.list[0].Do(ctx, c)
	}
	var tried []string
	var last error
	for _, u := range b.order(tcp.Clock()) {
		answer, taken, err := u.try(ctx, c)
		if !Unsent(err) {
			return answer, err
		}
		if taken != nil {
			c.Body, c.Whole, c.Same = [][]byte{taken}, true, true
		}
		last = err
		tried = append(tried, fmt.Sprintf("%s: %v", u.origin(), errors.Unwrap(err)))
	}
	return nil, &Error{ClassOf(last), &unreachable{tried, errors.Unwrap(last)}}
}

// order returns the base URLs in the order in which they are tried.
func (b *Bases) order(now time.Duration) []*Upstream {
	first, last := make([]*Upstream, 0, len(b.list)), []*Upstream(nil)
	for _, u := range b.list {
		if u.reach.skipped(now) {
			last = append(last, u)
		} else {
			first = append(first, u)
		}
	}
	return append(first, last...)
}

// An unreachable lists why each base URL could not be connected to.
type unreachable struct {
	tried []string
	last  error
}

// Error implements error.
func (e *unreachable) Error() string { return strings.Join(e.tried, "; ") }

// Unwrap returns the error of the base URL that was tried last.
func (e *unreachable) Unwrap() error { return e.last }

// origin returns scheme, host and port of the server, for people.
func (u *Upstream) origin() string {
	if u.config.Dial.Socket != "" {
		return "unix:" + u.config.Dial.Socket
	}
	return u.config.BaseURL.Scheme + "://" + u.config.BaseURL.Host
}

// A BaseState says whether a base URL can be connected to.
type BaseState struct {
	Origin string    // scheme, host and port
	Known  bool      // a connection was tried
	Err    error     // why the last attempt failed; nil if it succeeded, or is not Known
	Since  time.Time // of Err: of the first of consecutive failures
}

// States returns the state of each base URL, in order.
func (b *Bases) States() []BaseState {
	all := make([]BaseState, len(b.list))
	for i, u := range b.list {
		all[i] = BaseState{Origin: u.origin(), Known: u.reach.heard.Load() != 0}
		if f := u.reach.failed.Load(); f != nil {
			all[i].Known, all[i].Err, all[i].Since = true, f.err, f.since
		}
	}
	return all
}

// Check connects to each base URL of which nothing was heard for 30 s, or to which the last
// connection failed, and closes the connection: no request is sent. The handshake of TLS is included
// only if it has failed before. Check returns within 5 s.
func (b *Bases) Check(ctx context.Context) {
	var all sync.WaitGroup
	for _, u := range b.list {
		if !u.closed() && u.reach.due(tcp.Clock()) {
			all.Add(1)
			panics.Go(u.config.Panicked, func() { u.check(ctx) }, all.Done)
		}
	}
	all.Wait()
}

func (u *Upstream) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(u.config.Connect, checkWait))
	defer cancel()
	defer panics.AfterEnd(u.life, u.config.Panicked, cancel)()
	settings := u.tls
	if f := u.reach.failed.Load(); f == nil || ClassOf(f.err) != TLSFailed {
		settings = nil
	}
	_, plain, err := u.config.Dial.Conn(ctx, u.addr, settings, u.config.Raw)
	if err == nil {
		_ = plain.Close()
		u.reach.note(tcp.Clock(), nil)
		return
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return // the process stops, or the upstream was removed
	}
	u.reach.note(tcp.Clock(), u.connectError(err))
}

// Close is Upstream.Close for all base URLs.
func (b *Bases) Close() {
	for _, u := range b.list {
		u.Close()
	}
}

// Retire is Upstream.Retire for all base URLs.
func (b *Bases) Retire() {
	for _, u := range b.list {
		u.Retire()
	}
}

// Busy returns the number of busy connections.
func (b *Bases) Busy() (n int) {
	for _, u := range b.list {
		n += u.Busy()
	}
	return n
}
