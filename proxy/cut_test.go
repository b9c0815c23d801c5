package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
	"sidenote/proxy/report"
)

const getStream = "GET /v1/stream HTTP/1.%d\r\nHost: x\r\n\r\n"

// An answer that the upstream cuts is not reported as completed.
func TestCutByUpstream(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
	for name, c := range map[string]struct {
		answer string
		end    func(net.Conn)
	}{
		"ends inside chunks":   {chunks, func(c net.Conn) { c.Close() }},
		"ends inside a length": {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", func(c net.Conn) { c.Close() }},
		"is reset":             {"HTTP/1.1 200 OK\r\n\r\nfirst", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }},
		"sends nonsense":       {chunks, func(c net.Conn) { io.WriteString(c, "nonsense\r\n"); io.Copy(io.Discard, c) }},
		"falls silent":         {chunks, func(c net.Conn) { io.Copy(io.Discard, c) }},
	} {
		for minor := range 2 {
			next := make(chan struct{})
			u := newUpstream(t, func(_ seen, w io.Writer) {
				io.WriteString(w, c.answer)
				<-next
				c.end(w.(net.Conn))
			})
			g := openIn(t, u, func(cfg *proxy.Config) {
				cfg.Timeouts.Idle = patience
				if name == "falls silent" {
					cfg.Timeouts.Idle = 50 * time.Millisecond
				}
			})
			conn := g.dial(t)
			fmt.Fprintf(conn, getStream, minor)
			readUntil(t, conn, "first")
			close(next)
			if rest, err := io.ReadAll(conn); strings.Contains(string(rest), "0\r\n\r\n") || minor == 0 && !strings.Contains(c.answer, "Length") && err == nil {
				t.Errorf("%s, 1.%d: the cut looks like an end: %q, %v", name, minor, rest, err)
			}
			if r := g.reports.next(t); r.Client != report.ClientCutUpstream || !r.Truncated || r.Status != 200 {
				t.Errorf("%s, 1.%d: %s, truncated %v, %d", name, minor, r.Client, r.Truncated, r.Status)
			}
		}
	}
}

// readUntil reads until the text read ends with end.
func readUntil(t *testing.T, r io.Reader, end string) {
	t.Helper()
	var got []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(got), end); got = append(got, one...) {
		if _, err := io.ReadFull(r, one); err != nil {
			t.Fatalf("%v after %q", err, got)
		}
	}
}

// An answer that a shutdown cuts is not reported as completed either, whatever it waits for: its
// record is written before the process ends.
func TestCutByShutdown(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
	f := func(name, request, answer, first string, read bool) {
		t.Helper()
		stuck, silent := make(chan struct{}), strings.Repeat("x", 1<<20)
		u := newUpstream(t, func(_ seen, w io.Writer) {
			io.WriteString(w, answer)
			for c := w.(net.Conn); !read; { // until the buffers are full
				c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(silent), silent); errors.Is(err, os.ErrDeadlineExceeded) {
					close(stuck)
					break
				}
			}
			io.Copy(io.Discard, w.(io.Reader))
		})
		g := openIn(t, u, func(cfg *proxy.Config) { cfg.Timeouts.Idle, cfg.Timeouts.ClientWrite = time.Hour, time.Hour })
		conn := g.dial(t)
		io.WriteString(conn, request)
		readUntil(t, conn, first)
		if !read {
			wait(t, stuck)
		}
		grace, end := context.WithCancel(t.Context())
		end()
		if err := g.server.Shutdown(grace); err == nil {
			t.Errorf("%s: nothing was cut", name)
		}
		select { // Shutdown has waited for the record
		case r := <-g.reports:
			if r.Client != report.ClientCutShutdown || r.Truncated {
				t.Errorf("%s: %s, truncated %v", name, r.Client, r.Truncated)
			}
		default:
			t.Errorf("%s: it ended without a report", name)
		}
		if n := gauge(t, g.metrics, "sidenote_requests_in_flight"); n != 0 {
			t.Errorf("%s: %v requests in flight", name, n)
		}
	}
	const upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst"
	f("chunks", chatRequest(chatBody), chunks, "first", true)
	f("chunks for an old client", fmt.Sprintf(getStream, 0), chunks, "first", true)
	f("a length", fmt.Sprintf(getStream, 1), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", "first", true)
	f("another protocol", "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", upgraded, "first", true)
	f("a client that does not read", chatRequest(chatBody), chunks, "first", false)
	f("an old client that does not read", fmt.Sprintf(getStream, 0), chunks, "first", false)
}

// A request that Shutdown cuts before its whole body arrived is not reported as left by its
// client.
func TestCutBeforeItsBody(t *testing.T) {
	for range 20 {
		g := open(t, newUpstream(t, nil), nil)
		io.WriteString(g.dial(t), "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 19000\r\n\r\n"+strings.Repeat(" ", 9000))
		for begin := time.Now(); gauge(t, g.metrics, "sidenote_requests_in_flight") == 0; {
			if time.Since(begin) > patience {
				t.Fatal("it never began")
			}
		}
		grace, end := context.WithCancel(t.Context())
		end()
		shut := g.server.Shutdown(grace)
		r := g.reports.next(t)
		if r.Status == fasthttp.StatusServiceUnavailable { // it was counted as open, but the shutdown began before it was admitted
			continue
		}
		if shut == nil {
			t.Error("nothing was cut")
		}
		if r.Client != report.ClientCutShutdown {
			t.Errorf("it was %s", r.Client)
		}
		return
	}
	t.Error("it was never admitted")
}
