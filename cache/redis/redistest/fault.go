package redistest

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// A Fault is a TCP proxy that breaks the network on request. All its methods may be
// called from any goroutine while traffic flows. They apply to present and future
// connections.
type Fault struct {
	t      testing.TB
	addr   *net.TCPAddr
	target string
	ctx    context.Context // ends with the Fault
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu           sync.Mutex
	ln           *net.TCPListener // nil while connects are refused
	links        map[*link]bool
	accepted     int64
	hole         bool
	base, jitter time.Duration
	cut          int64
}

// A link is a client's connection and its state.
type link struct {
	client *net.TCPConn
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	lost   bool  // bytes were lost, so the rest of the stream makes no sense
	left   int64 // bytes that the client still gets before the cut; 0 is no cut
}

// A chunk is a piece of the server's replies that is being delayed.
type chunk struct {
	data []byte
	due  time.Time
}

// NewFault starts a Fault in front of the server at target.
func NewFault(t testing.TB, target string) *Fault {
	t.Helper()
	ln := listen(t)
	f := &Fault{t: t, addr: ln.Addr().(*net.TCPAddr), target: target, ln: ln, links: map[*link]bool{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	t.Cleanup(f.Close)
	f.all.Go(func() { f.accept(ln) })
	return f
}

// Addr is host:port, the same for as long as the Fault lives.
func (f *Fault) Addr() string { return f.addr.String() }

// Conns is the number of open client connections.
func (f *Fault) Conns() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.links)
}

// Accepted is the number of client connections so far.
func (f *Fault) Accepted() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepted
}

// Blackhole drops all bytes in both directions, and does not pass on that the server
// closed. Connections are still accepted. When it is turned off, it closes the
// connections that lost something, so that no half reply is ever continued.
func (f *Fault) Blackhole(on bool) {
	f.mu.Lock()
	f.hole = on
	f.mu.Unlock()
	if !on {
		f.endAll(false, func(l *link) bool { return l.lost })
	}
}

// Latency delays each chunk of the server's replies by base plus or minus up to jitter
// and keeps their order. Zeros turn it off.
func (f *Fault) Latency(base, jitter time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base, f.jitter = base, jitter
}

// Reset resets all present connections.
func (f *Fault) Reset() { f.endAll(true, func(*link) bool { return true }) }

// CutAfter resets each connection after n more bytes from the server have reached the
// client. 0 turns it off.
func (f *Fault) CutAfter(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = n
	for l := range f.links {
		l.left = n
	}
}

// Refuse makes connects fail. When it is turned off, the Fault listens on the same port
// again. Open connections stay.
func (f *Fault) Refuse(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if on == (f.ln == nil) {
		return
	}
	if on {
		_ = f.ln.Close()
		f.ln = nil
		return
	}
	if f.ctx.Err() != nil {
		return // closed for good
	}
	ln, err := net.ListenTCP("tcp", f.addr)
	if err != nil {
		f.t.Errorf("fault proxy: %v", err)
		return
	}
	f.ln = ln
	f.all.Go(func() { f.accept(ln) })
}

// Close ends the Fault and waits for its goroutines. The end of the test calls it too.
func (f *Fault) Close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.Refuse(true)
	f.endAll(false, func(*link) bool { return true })
	f.all.Wait()
}

func (f *Fault) accept(ln *net.TCPListener) {
	for {
		client, err := ln.AcceptTCP()
		if err != nil {
			return // refusing or closed
		}
		f.open(client)
	}
}

func (f *Fault) open(client *net.TCPConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, left: f.cut}
	l.ctx, l.cancel = context.WithCancel(f.ctx)
	f.links[l] = true
	f.accepted++
	f.all.Go(func() { f.serve(l) })
}

func (f *Fault) serve(l *link) {
	server, err := (&net.Dialer{}).DialContext(l.ctx, "tcp", f.target)
	if err != nil {
		if f.swallow(l) {
			_, _ = io.Copy(io.Discard, l.client) // until the client leaves or the hole ends
		}
		f.end(l, true)
		return
	}
	queue := make(chan chunk, 64)
	var parts sync.WaitGroup
	parts.Go(func() { f.request(l, server) })
	parts.Go(func() { f.delay(l, server, queue) })
	parts.Go(func() { f.reply(l, queue) })
	<-l.ctx.Done()
	_ = server.Close()
	parts.Wait()
}

// request relays what the client sends, and notices when it leaves.
func (f *Fault) request(l *link, server net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buf)
		if n > 0 && !f.swallow(l) {
			_, _ = server.Write(buf[:n]) // the reading side notices that the server left
		}
		if err != nil {
			f.end(l, false)
			return
		}
	}
}

// delay reads what the server sends and sets the time at which to relay it.
func (f *Fault) delay(l *link, server net.Conn, queue chan<- chunk) {
	defer close(queue)
	for {
		buf := make([]byte, 32<<10)
		n, err := server.Read(buf)
		if n > 0 {
			select {
			case queue <- chunk{buf[:n], time.Now().Add(f.latency())}:
			case <-l.ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reply relays what the server sent when its time has come.
func (f *Fault) reply(l *link, queue <-chan chunk) {
	for c := range queue {
		timer := time.NewTimer(time.Until(c.due))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			return
		}
		data, cut := f.share(l, c.data)
		if _, err := l.client.Write(data); err != nil || cut {
			f.end(l, true)
			return
		}
	}
	if !f.swallow(l) {
		f.end(l, false)
	}
}

func (f *Fault) latency() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.base
	if f.jitter > 0 {
		d += rand.N(2*f.jitter+1) - f.jitter
	}
	return d
}

// swallow tells whether bytes from or to l are dropped now, and records it.
func (f *Fault) swallow(l *link) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.lost = l.lost || f.hole
	return f.hole
}

// share returns the part of data that the client gets, and whether the connection is
// cut after it.
func (f *Fault) share(l *link, data []byte) (part []byte, last bool) {
	if f.swallow(l) {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n := int64(len(data)); {
	case l.left == 0:
		return data, false
	case n < l.left:
		l.left -= n
		return data, false
	default:
		return data[:l.left], true
	}
}

func (f *Fault) endAll(reset bool, which func(*link) bool) {
	f.mu.Lock()
	var links []*link
	for l := range f.links {
		if which(l) {
			links = append(links, l)
		}
	}
	f.mu.Unlock()
	for _, l := range links {
		f.end(l, reset)
	}
}

// end closes the client's connection; serve does the rest.
func (f *Fault) end(l *link, reset bool) {
	f.mu.Lock()
	delete(f.links, l)
	f.mu.Unlock()
	if reset {
		_ = l.client.SetLinger(0)
	}
	_ = l.client.Close()
	l.cancel()
}
