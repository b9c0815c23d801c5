//go:build unix

package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy/transport"
)

// looks returns the ways to detect a hang-up: this system's own, and the one of every Unix.
func looks() map[string]look {
	return map[string]look{"native": func(*transport.Upstream, *transport.ServerOptions) {}, "portable": transport.LookPortably}
}

// A look makes an upstream and a server detect hang-ups in its way.
type look func(*transport.Upstream, *transport.ServerOptions)

// relaying returns a front with room for the outcomes of that many requests.
func (l look) relaying(t testing.TB, u *transport.Upstream, many int) *front {
	var o transport.ServerOptions
	l(u, &o)
	return relayingMany(t, u, many, o)
}

// A leaving is a front whose upstream reports when it notices that a client has left.
type leaving struct {
	*front
	answer string // what the upstream sends before the client leaves
	began  []chan struct{}
	ended  []chan time.Time
}

// newLeaving expects that many requests, each on its own connection, with its number as path. After
// answer the upstream sends pieces as long as flowing is set.
func newLeaving(t testing.TB, requests int, answer string, flowing bool, look look) *leaving {
	l := &leaving{answer: answer}
	for range requests {
		l.began, l.ended = append(l.began, make(chan struct{})), append(l.ended, make(chan time.Time, 1))
	}
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		head, _, err := readMessage(br)
		if err != nil {
			return
		}
		var number int
		if _, err := fmt.Sscanf(head[strings.IndexByte(head, '/'):], "/%d ", &number); err != nil {
			t.Errorf("%v in %q", err, head)
			return
		}
		_, _ = io.WriteString(c, answer)
		close(l.began[number])
		over := make(chan struct{})
		var flow sync.WaitGroup
		if flowing {
			flow.Go(func() { drip(c, over) })
		}
		_, _ = br.ReadByte()
		l.ended[number] <- time.Now()
		close(over)
		flow.Wait()
	})
	u := newUpstream(t, o.config(""))
	l.front = look.relaying(t, u, requests)
	return l
}

// drip sends a piece of a stream each millisecond.
func drip(c net.Conn, over <-chan struct{}) {
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-over:
			return
		case <-pace.C:
			if _, err := io.WriteString(c, "2\r\nab\r\n"); err != nil {
				return
			}
		}
	}
}

// one sends request and leaves. It returns how long it took until the upstream noticed. "%d" in
// request is replaced by the number.
func (l *leaving) one(t testing.TB, number int, request string, leave func(*client)) time.Duration {
	t.Helper()
	c := dial(t, l.addr)
	c.send(strings.ReplaceAll(request, "%d", fmt.Sprint(number)))
	await(t, l.began[number], "request")
	if l.answer != "" { // the head has been sent, so the handler has returned
		if _, err := c.br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	leave(c)
	return await(t, l.ended[number], "end at the upstream").Sub(start)
}

const (
	ask      = "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"
	streamed = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
)

func fin(c *client) { c.Close() }

// If a client leaves, its upstream request ends, however the client leaves and at any stage of the
// request.
func TestHangup(t *testing.T) {
	reset := func(c *client) { _ = c.SetLinger(0); c.Close() }
	half := func(c *client) { _ = c.CloseWrite() }
	body := strings.Repeat("x", 200<<10)
	for name, c := range map[string]struct {
		answer, request string
		leave           func(*client)
		native          bool // only the system's own way detects it
	}{
		"before the head":        {"", ask, fin, false},
		"before the head, reset": {"", ask, reset, false},
		"before the head, half":  {"", ask, half, false},
		"behind pipelined bytes": {"", ask + ask, fin, true},
		"after an upload":        {"", "PUT /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 204800\r\n\r\n" + body, fin, false},
		"in the stream":          {streamed, ask, fin, false},
		"in the stream, reset":   {streamed, ask, reset, false},
		"in a fixed body":        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", ask, half, false},
	} {
		for way, look := range looks() {
			if c.native && way != "native" {
				continue
			}
			t.Run(name+", "+way, func(t *testing.T) {
				l := newLeaving(t, 1, c.answer, false, look)
				t.Logf("after %v", l.one(t, 0, c.request, c.leave))
				var err error
				if c.answer == "" {
					err = await(t, l.errs, "error")
				} else {
					err = await(t, l.outcomes, "outcome").Err
				}
				if transport.ClassOf(err) != transport.ClientGone {
					t.Errorf("got %v, want %s", err, transport.ClientGone)
				}
			})
		}
	}
}

// phases returns the stages at which a client may leave.
func phases() map[string]struct {
	answer  string
	flowing bool
} {
	return map[string]struct {
		answer  string
		flowing bool
	}{
		"before the first byte": {"", false},
		"mid-stream":            {streamed, true},
		"during a stall":        {streamed, false},
	}
}

// percentiles returns the median and the 99th percentile of times.
func percentiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}

// If a thousand clients leave, the upstream notices a thousand times. BenchmarkHangup measures how
// soon, on an idle machine.
func TestThousandHangups(t *testing.T) {
	const atOnce = 8
	many := 1000
	if testing.Short() {
		many = 200
	}
	for phase, c := range phases() {
		for way, look := range looks() {
			t.Run(phase+", "+way, func(t *testing.T) {
				l := newLeaving(t, many, c.answer, c.flowing, look)
				times := make([]time.Duration, many)
				var clients sync.WaitGroup
				for first := range atOnce {
					clients.Go(func() {
						for i := first; i < many; i += atOnce {
							times[i] = l.one(t, i, ask, fin)
						}
					})
				}
				clients.Wait()
				p50, p99 := percentiles(times)
				t.Logf("half of the upstreams heard within %v, 99 of 100 within %v", p50, p99)
			})
		}
	}
}

// BenchmarkHangup measures how long it takes until the upstream notices that a client left.
func BenchmarkHangup(b *testing.B) {
	for phase, c := range phases() {
		for way, look := range looks() {
			b.Run(phase+", "+way, func(b *testing.B) {
				l := newLeaving(b, b.N, c.answer, c.flowing, look)
				times := make([]time.Duration, b.N)
				b.ResetTimer()
				for i := range b.N {
					times[i] = l.one(b, i, ask, fin)
				}
				p50, p99 := percentiles(times)
				b.ReportMetric(float64(p50)/1e6, "p50-ms")
				b.ReportMetric(float64(p99)/1e6, "p99-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// A watch leaves the connection usable for further requests.
func TestWatchThenReuse(t *testing.T) {
	for name, look := range looks() {
		t.Run(name, func(t *testing.T) { watchThenReuse(t, look) })
	}
}

func watchThenReuse(t *testing.T, look look) {
	o := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	u := newUpstream(t, o.config(""))
	f := look.relaying(t, u, 200)
	c := dial(t, f.addr)
	for range 200 {
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab")
		if _, body := c.message(); body != "ok" {
			t.Fatalf("got %q", body)
		}
		await(t, f.outcomes, "outcome")
	}
	if n := o.count(); n != 1 {
		t.Errorf("%d connections to the upstream, want 1", n)
	}
}

func TestWatch(t *testing.T) {
	for name := range looks() {
		t.Run(name, func(t *testing.T) { watchAndLeave(t, name == "portable") })
	}
}

func watchAndLeave(t *testing.T, portably bool) {
	server, peer := pair(t)
	gone := make(chan struct{}, 1)
	stop := transport.WatchHangup(server, portably, func() { gone <- struct{}{} })
	peer.send("unread")
	stop()
	select {
	case <-gone:
		t.Error("gone without leaving")
	default:
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(server, got); err != nil {
		t.Errorf("reading after a watch: %v", err)
	}
	stop = transport.WatchHangup(server, portably, func() { gone <- struct{}{} })
	peer.Close()
	await(t, gone, "hang-up")
	stop()

	inMemory, other := net.Pipe()
	defer inMemory.Close()
	stop = transport.WatchHangup(inMemory, portably, func() { t.Error("gone from memory") })
	other.Close()
	stop()
}

// pair returns the two ends of a TCP connection.
func pair(t testing.TB) (server net.Conn, peer *client) {
	ln := listen(t)
	defer ln.Close()
	peer = dial(t, ln.Addr().String())
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, peer
}
