package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy/transport"
)

const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// Bytes pass unchanged however the upstream splits them into chunks and segments.
func TestStreamBytes(t *testing.T) {
	wire := make(chan []string, 1)
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		for {
			if _, _, err := readMessage(br); err != nil {
				return
			}
			for _, segment := range <-wire {
				if _, err := io.WriteString(c, segment); err != nil {
					return
				}
			}
		}
	})
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"data: {\"x\":\"é😀\"}\n\n", "data: [DONE]\r\n\r\n", ": ping\n", "event: a\ndata: b\ndata: c\n\n", "\r\n0\r\n\r\n", strings.Repeat("z", 9000),
		})).Draw(t, "events"), "")
		framed := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
		if rapid.Bool().Draw(t, "fixed") {
			framed += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		} else {
			framed += "Transfer-Encoding: chunked\r\n\r\n"
			for _, chunk := range split(t, body, "chunks") {
				framed += fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk)
			}
			framed += "0\r\n\r\n"
		}
		wire <- split(t, framed, "segments")
		c.send(get)
		if _, got := c.message(); got != body {
			t.Fatalf("%q became %q", body, got)
		}
		if out := await(c.t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != int64(len(body)) {
			t.Fatalf("outcome %+v", out)
		}
	})
	if n := o.count(); n != 1 {
		t.Errorf("%d connections to the upstream, want 1", n)
	}
}

// split splits s into non-empty pieces.
func split(t *rapid.T, s, label string) (pieces []string) {
	for s != "" {
		n := rapid.IntRange(1, len(s)).Draw(t, label)
		if rapid.Bool().Draw(t, label+" small") {
			n = min(n, 7)
		}
		if len(pieces) > 40 {
			n = len(s)
		}
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return pieces
}

// The head and each piece reach the client before the upstream sends the next one.
func TestPiecesPassAtOnce(t *testing.T) {
	for _, framing := range []string{"Transfer-Encoding: chunked", "Content-Length: 10", "A: until close"} {
		next := make(chan string)
		o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
			if _, _, err := readMessage(br); err != nil {
				return
			}
			for piece := range next {
				_, _ = io.WriteString(c, piece)
			}
		})
		f := relaying(t, newUpstream(t, o.config("")))
		c := dial(t, f.addr)
		c.send(get)
		next <- "HTTP/1.1 200 OK\r\n" + framing + "\r\n\r\n"
		for line := ""; line != "\r\n"; {
			line, _ = c.br.ReadString('\n')
		}
		for range 5 {
			raw, framed := "ab", "ab"
			if !strings.HasPrefix(framing, "Content-Length") {
				framed = "2\r\nab\r\n"
			}
			if strings.HasPrefix(framing, "Transfer") {
				raw = framed
			}
			next <- raw
			got := make([]byte, len(framed))
			if _, err := io.ReadFull(c.br, got); err != nil || string(got) != framed {
				t.Fatalf("%s: got %q %v", framing, got, err)
			}
		}
		if strings.HasPrefix(framing, "Transfer") {
			next <- "0\r\n\r\n"
		}
		close(next)
		if out := await(t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != 10 {
			t.Errorf("%s: outcome %+v", framing, out)
		}
	}
}

// A client that never reads must not keep a stream open forever.
func TestClientThatNeverReads(t *testing.T) {
	ended := make(chan struct{})
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		defer close(ended)
		if _, _, err := readMessage(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		chunk := fmt.Sprintf("10000\r\n%065536d\r\n", 0)
		for {
			if _, err := io.WriteString(c, chunk); err != nil {
				return
			}
		}
	})
	config := o.config("")
	config.ClientWrite = 50 * time.Millisecond
	f := relaying(t, newUpstream(t, config))
	c := dial(t, f.addr)
	_ = c.SetReadBuffer(4 << 10)
	c.send(get)
	if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.ClientSlow {
		t.Errorf("outcome %+v", out)
	}
	await(t, ended, "end at the upstream")
}

// A request is not written to a pooled connection that the upstream has closed. A request of which
// a byte may have been sent is not sent again.
func TestOneRetryRule(t *testing.T) {
	requests, closed := make(chan string, 10), make(chan struct{}, 10)
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		head, body, err := readMessage(br)
		if err != nil {
			return
		}
		requests <- body
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		switch {
		case body == "die":
		case strings.Contains(head, "X-Chatter"):
			// In one write: bytes that arrive after the next request was sent count as its answer
			// in HTTP/1.1.
			_, _ = io.WriteString(c, answer+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			_, _ = br.ReadByte()
		default:
			_, _ = io.WriteString(c, answer)
		}
		c.Close()
		closed <- struct{}{}
	})
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	for i, body := range []string{"one", "two", "die", "end"} {
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n" + body)
		_, got := c.message()
		if want := map[bool]string{true: "ok", false: string(transport.ClosedEarly)}[body != "die"]; got != want {
			t.Errorf("request %d: got %q", i, got)
		}
		if seen := await(t, requests, "request"); seen != body {
			t.Errorf("request %d: upstream saw %q", i, seen)
		}
		await(t, closed, "close")
	}
	// Bytes beyond an answer are not taken for the answer to the next request.
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Chatter: 1\r\n\r\n")
	c.message()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nlast")
	if _, got := c.message(); got != "ok" {
		t.Errorf("got %q", got)
	}
	if n := len(requests); n != 2 {
		t.Errorf("%d requests more, want 2", n)
	}
}

// Close cuts streams, and clients notice.
func TestCloseCutsStreams(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, _, err := readMessage(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
			_, _ = br.ReadByte()
		}
	})
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	c.send(get)
	if _, err := c.br.ReadString('b'); err != nil {
		t.Fatal(err)
	}
	f.up.Close()
	if got := c.rest(); got != "\r\n" {
		t.Errorf("stream ended with %q", got)
	}
	if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.Closed {
		t.Errorf("outcome %+v", out)
	}
	c = dial(t, f.addr)
	c.send(get)
	if _, got := c.message(); got != string(transport.Closed) {
		t.Errorf("after Close: %q", got)
	}
}
