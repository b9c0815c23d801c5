//go:build linux

package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// A talk lists what a client sends on one connection, each part with the text that the client
// waits for before the next one; "" is the end of the connection.
type talk []struct{ send, until string }

const (
	ioPlain   = "GET /v1/plain HTTP/1.1\r\nHost: x\r\n\r\n"
	ioOld     = "GET /v1/stream HTTP/1.0\r\n\r\n"
	ioUpgrade = "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nping"
)

// talks returns the talks in which each read and write fails in turn.
func talks() map[string]talk {
	put := func(path string, size int) string {
		return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, size, strings.Repeat("x", size))
	}
	early := put("/v1/early", 40<<10)
	early = strings.Replace(early, "Content-Length: ", "Content-Length: 9", 1) // the client has more to send, and waits
	last := func(request string) string {
		return strings.Replace(request, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
	}
	large := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, strings.Repeat("long ", 40<<10))
	return map[string]talk{
		"plain":                  {{last(ioPlain), ""}},
		"kept alive":             {{strings.Replace(ioPlain, "plain", "keep", 1), "whole"}, {last(ioPlain), ""}},
		"chat":                   {{chatRequest(chatBody, "Connection: close"), ""}},
		"large chat":             {{chatRequest(large, "Connection: close"), ""}},
		"streamed":               {{chatRequest(streamBody, "Connection: close"), ""}},
		"upload":                 {{put("/v1/files", 200<<10), ""}},
		"HTTP/1.0":               {{ioOld, ""}},
		"upgrade":                {{ioUpgrade, "pong"}},
		"early answer":           {{early, ""}},
		"pipelined":              {{ioPlain + last(ioPlain), ""}},
		"pipelined HTTP/1.0":     {{ioPlain + ioOld, ""}},
		"pipelined upgrade":      {{ioPlain + ioUpgrade, "pong"}},
		"pipelined early answer": {{ioPlain + early, ""}},
	}
}

// ioOrigin is an upstream for talks. It closes connections that fail.
func ioOrigin(t *testing.T) *url.URL {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				for br := bufio.NewReader(c); ioAnswer(c, br); {
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		all.Wait()
	})
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}
}

// ioAnswer answers one request and reports whether another may follow.
func ioAnswer(c net.Conn, br *bufio.Reader) (more bool) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/early"):
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nwhole")
		_, _ = io.Copy(io.Discard, br)
		return false
	case strings.HasSuffix(r.URL.Path, "/ws"):
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if ping := make([]byte, 4); readsAll(br, ping) {
			_, _ = io.WriteString(c, "pong")
		}
		_, _ = io.Copy(io.Discard, br)
		return false
	}
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return false
	case strings.HasSuffix(r.URL.Path, "/keep"):
		_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")
		return err == nil
	case strings.HasSuffix(r.URL.Path, "/stream"), bytes.Contains(body, []byte(`"stream":true`)):
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
		for _, event := range []string{"data: 1\n\n", "data: 2\n\n", "data: whole\n\n"} {
			_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(event), event)
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	default:
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nwhole")
	}
	return false
}

func readsAll(r io.Reader, p []byte) bool {
	_, err := io.ReadFull(r, p)
	return err == nil
}

// runTalk sends as much of a talk as possible and returns what came back.
func (g *rig) runTalk(t *testing.T, with talk) (heard string) {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		return "" // the server reset the connection before Dial had returned
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	var sent sync.WaitGroup
	defer sent.Wait()
	defer c.Close()
	var all []byte
	for _, part := range with {
		sent.Wait()
		sent.Go(func() { _, _ = io.WriteString(c, part.send) }) // may fail
		for piece := make([]byte, 4096); part.until == "" || !bytes.HasSuffix(all, []byte(part.until)) && !bytes.HasSuffix(all, []byte("}}")); {
			n, err := c.Read(piece)
			if all = append(all, piece[:n]...); err != nil {
				return string(all)
			}
		}
	}
	return string(all)
}

// goroutines counts the proxy's goroutines, without those of fasthttp's pool, which may be idle,
// and those of the upstream.
func goroutines() (n int, stacks string) {
	others := []string{"fasthttp.(*workerPool)", "fasthttp.updateServerDate", "proxy_test.ioOrigin"}
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	for stack := range bytes.SplitSeq(text, []byte("\n\n")) {
		if !slices.ContainsFunc(others, func(name string) bool { return bytes.Contains(stack, []byte(name)) }) {
			n++
		}
	}
	return n, string(text)
}

// settles waits until g holds nothing and no more goroutines run than before.
func (g *rig) settles(t *testing.T, before int) {
	t.Helper()
	var held map[string]int64
	var n int
	var stacks string
	for begin := time.Now(); time.Since(begin) < patience; runtime.Gosched() {
		held = proxy.Held(g.server)
		if slices.Max(slices.Collect(maps.Values(held))) > 0 {
			continue
		}
		for _, name := range []string{"requests_in_flight", "streams_open"} {
			held[name] = int64(gauge(t, g.metrics, "sidenote_"+name))
		}
		if n, stacks = goroutines(); n <= before && slices.Max(slices.Collect(maps.Values(held))) == 0 {
			return
		}
	}
	t.Fatalf("%d goroutines, before it was %d; held: %v\n%s", n, before, held, stacks)
}

// eachIO repeats a talk and breaks in turn the I/O number 0, 1, 2 … of one side's connections,
// until there are no more. For each I/O that was reached it calls after, once g holds nothing.
func eachIO(t *testing.T, with talk, kind transporttest.Kind, side string, after func(g *rig, at int64)) {
	origin := ioOrigin(t)
	var fault transporttest.Fault
	var clients, upstreams transport.Raw = fault.Open, nil
	if side == "upstream" {
		clients, upstreams = nil, fault.Open
	}
	g := start(t, proxy.WithFaults(proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: origin}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil)},
	}, clients, upstreams), nil)
	fault.Kind = kind
	fault.Set(1 << 60)
	if heard := g.runTalk(t, with); !strings.Contains(heard, "whole") && !strings.Contains(heard, "pong") {
		t.Fatalf("without a fault: %q", heard)
	}
	g.settles(t, 1<<30)
	before, _ := goroutines()
	for at := int64(0); ; at++ {
		fault.Set(at)
		g.runTalk(t, with)
		g.settles(t, before)
		if !fault.Reached() {
			if at == 0 {
				t.Error("no I/O was broken")
			}
			return
		}
		after(g, at)
	}
}

// A panic in any read or write of an upstream's connection ends its request as an internal error.
// It is logged and counted once, and nothing stays held.
func TestEveryIOPanics(t *testing.T) {
	for name, with := range talks() {
		t.Run(name, func(t *testing.T) {
			eachIO(t, with, transporttest.Panics, "upstream", func(g *rig, at int64) {
				said := g.log.take()
				if n := strings.Count(said, "BUG: panic"); n != 1 || !strings.Contains(said, "stack=") {
					t.Errorf("I/O %d: told %d times: %s", at, n, said)
				}
				if n := reporttest.Count(t, g.metrics, "sidenote_panics_total", ""); n != float64(at+1) {
					t.Errorf("I/O %d: counted %v", at, n)
				}
				bugs, early := 0, false
				for len(g.reports) > 0 {
					r := <-g.reports
					if r.Outcome == report.Failed && r.Reason == report.ReasonInternal {
						bugs++
					}
					early = early || r.UpstreamStatus() == 413 && !r.Truncated
				}
				if bugs != 1 && !(early && bugs == 0) { // a panic in the upload has no effect if the answer came first
					t.Errorf("I/O %d: %d reports of a bug: %s", at, bugs, said)
				}
			})
		})
	}
}

// Whichever read or write of any connection fails, everything is released: slots, streams, memory,
// connections, goroutines.
func TestEveryIOFails(t *testing.T) {
	for name, with := range talks() {
		for _, side := range []string{"client", "upstream"} {
			for _, kind := range []transporttest.Kind{transporttest.Fails, transporttest.Breaks} {
				t.Run(fmt.Sprintf("%s, %s %s", name, side, kind), func(t *testing.T) {
					eachIO(t, with, kind, side, func(g *rig, _ int64) {
						for len(g.reports) > 0 {
							<-g.reports
						}
					})
				})
			}
		}
	}
}
