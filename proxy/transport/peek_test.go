package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"

	"sidenote/proxy/transport"
)

// A glance holds the results of Peek.
type glance struct {
	body  string
	whole bool
}

// peeking returns a front that calls Peek with limit twice before it relays an answer, which must
// have no effect. If limit is negative it does not call Peek.
func peeking(t testing.TB, u *transport.Upstream, limit func() int) (*front, chan glance) {
	f := &front{up: u, outcomes: make(chan transport.Outcome, 100), errs: make(chan error, 100)}
	glances := make(chan glance, 100)
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := do(ctx, u, transport.Call{})
		if err != nil {
			f.errs <- err
			return
		}
		if n := limit(); n >= 0 {
			body, whole := answer.Peek(n, nil)
			if again, still := answer.Peek(n, nil); string(again) != string(body) || still != whole {
				t.Errorf("saw %q %v, then %q %v", body, whole, again, still)
			}
			glances <- glance{string(body), whole}
		}
		answer.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { f.outcomes <- o }})
	}, transport.ServerOptions{})
	return f, glances
}

func always(limit int) func() int { return func() int { return limit } }

const (
	asChunks = "HTTP/1.1 400 Bad\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
	asFive   = "HTTP/1.1 400 Bad\r\nA: b\r\nContent-Length: 5\r\n\r\n"
	asNine   = "HTTP/1.1 400 Bad\r\nA: b\r\nContent-Length: 9\r\n\r\n"
	asRest   = "HTTP/1.1 400 Bad\r\nA: b\r\n\r\n"
)

// Peek returns the start of the body, and the client gets the same bytes as without it, including
// cuts.
func TestPeek(t *testing.T) {
	for _, c := range []struct {
		request, answer string
		limit           int
		want            glance
	}{
		{get, asFive + "abcde", 5, glance{"abcde", true}},
		{get, asFive + "abcde", 100, glance{"abcde", true}},
		{get, asFive + "abcde", 4, glance{"", false}},
		{get, asChunks + "5\r\nabcde\r\n0\r\n\r\n", 5, glance{"abcde", true}},
		{get, asChunks + "2\r\nab\r\n3\r\ncde\r\n0\r\nT: 1\r\n\r\n", 9, glance{"abcde", true}},
		{get, asChunks + "5\r\nabcde\r\n0\r\n\r\n", 4, glance{"abcd", false}},
		{get, asChunks + "0\r\n\r\n", 4, glance{"", true}},
		{get, asRest + "abcde", 5, glance{"abcde", true}},
		{get, asRest + "abcde", 4, glance{"abcd", false}},
		{get, asRest, 4, glance{"", true}},
		{get, "HTTP/1.1 204 No\r\nA: b\r\n\r\n", 4, glance{"", true}},
		{get, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", 4, glance{"", true}},
		{get, asFive + "abcde", 0, glance{"", false}},
		{get, asRest + "abcde", 0, glance{"", false}},
		{"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", asFive, 9, glance{"", true}},
		{"GET / HTTP/1.0\r\n\r\n", asFive + "abcde", 9, glance{"abcde", true}},
		{"GET / HTTP/1.0\r\n\r\n", asChunks + "5\r\nabcde\r\n0\r\n\r\n", 9, glance{"abcde", true}},
		{get, asNine + "abcde", 9, glance{"abcde", false}},
		{get, asNine, 9, glance{"", false}},
		{get, asChunks, 9, glance{"", false}},
		{get, asChunks + "5\r\nabcde\r\n", 9, glance{"abcde", false}},
		{get, asChunks + "5\r\nabcde\r\n", 5, glance{"abcde", false}},
		{get, asChunks + "5\r\nabcde\r\n", 4, glance{"abcd", false}},
		{get, asChunks + "5\r\nabcdef\r\n0\r\n\r\n", 9, glance{"abcde", false}},
	} {
		o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
			if _, _, err := readMessage(br); err == nil {
				_, _ = io.WriteString(conn, c.answer)
			}
		})
		// Two upstreams, because the origin closes its connections without announcing it.
		without, _ := peeking(t, newUpstream(t, o.config("")), always(-1))
		with, glances := peeking(t, newUpstream(t, o.config("")), always(c.limit))
		head, body, ended := received(t, without, c.request)
		gotHead, gotBody, gotEnded := received(t, with, c.request)
		if gotHead != head || gotBody != body || gotEnded != ended {
			t.Errorf("%q after %q:\n got %q %q, whole %v\nwant %q %q, whole %v", c.answer, c.request, gotHead, gotBody, gotEnded, head, body, ended)
		}
		if got := await(t, glances, "glance"); got != c.want {
			t.Errorf("%q: saw %q, whole %v of %d", c.answer, got.body, got.whole, c.limit)
		}
		want, got := await(t, without.outcomes, "outcome"), await(t, with.outcomes, "outcome")
		if got.Bytes != want.Bytes || transport.ClassOf(got.Err) != transport.ClassOf(want.Err) {
			t.Errorf("%q: outcome %+v, without %+v", c.answer, got, want)
		}
	}
}

// received returns the body that a client gets, with chunks joined, and whether it ended before the
// connection did.
func received(t *testing.T, f *front, request string) (head, body string, ended bool) {
	t.Helper()
	c := dial(t, f.addr)
	c.send(strings.Replace(request, "\r\n", "\r\nConnection: close\r\n", 1))
	all, _ := io.ReadAll(c.br)
	head, body, _ = strings.Cut(string(all), "\r\n\r\n")
	if !strings.Contains(head, "Transfer-Encoding: chunked") {
		return head, body, false
	}
	var joined strings.Builder
	br := bufio.NewReader(strings.NewReader(body))
	for {
		var n int64
		if _, err := fmt.Fscanf(br, "%x\r\n", &n); err != nil {
			return head, joined.String(), false
		}
		if n == 0 {
			return head, joined.String(), true
		}
		if _, err := io.CopyN(&joined, br, n); err != nil {
			return head, joined.String(), false
		}
		_, _ = br.Discard(2)
	}
}

// Bytes are relayed unchanged however many of them Peek has read.
func TestPeekedBytes(t *testing.T) {
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
	limits := make(chan int, 1)
	f, glances := peeking(t, newUpstream(t, o.config("")), func() int { return <-limits })
	c := dial(t, f.addr)
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "bc", "\r\n0\r\n\r\n", strings.Repeat("z", 9000)})).Draw(t, "body"), "")
		limit := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, len(body)+1)).Draw(t, "limit")
		fixed := rapid.Bool().Draw(t, "fixed")
		framed := "HTTP/1.1 400 Bad\r\n"
		if fixed {
			framed += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		} else {
			framed += "Transfer-Encoding: chunked\r\n\r\n"
			for _, chunk := range split(t, body, "chunks") {
				framed += fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk)
			}
			framed += "0\r\n\r\n"
		}
		limits <- limit
		wire <- split(t, framed, "segments")
		c.send(get)
		if _, got := c.message(); got != body {
			t.Fatalf("%q became %q", body, got)
		}
		want := glance{body, true}
		if len(body) > limit {
			want = glance{body[:limit], false}
			if fixed {
				want.body = ""
			}
		}
		if got := await(c.t, glances, "glance"); got != want {
			t.Fatalf("saw %+v of %d, want %+v", got, limit, want)
		}
		if out := await(c.t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != int64(len(body)) {
			t.Fatalf("outcome %+v", out)
		}
	})
	if n := o.count(); n != 1 {
		t.Errorf("%d connections to the upstream, want 1", n)
	}
}

// If an upstream falls silent during Peek, the client gets what arrived, and then a cut.
func TestPeekSilence(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = io.WriteString(c, asNine+"abcde")
		_, _ = io.Copy(io.Discard, br)
	})
	config := o.config("")
	config.Idle = 20 * time.Millisecond
	f, glances := peeking(t, newUpstream(t, config), always(9))
	c := dial(t, f.addr)
	c.send(get)
	if got := c.rest(); !strings.HasSuffix(got, "\r\n\r\nabcde") {
		t.Errorf("got %q", got)
	}
	if got := await(t, glances, "glance"); got != (glance{"abcde", false}) {
		t.Errorf("saw %v", got)
	}
	if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.IdleTimeout {
		t.Errorf("outcome %+v", out)
	}
}

// If a client leaves during Peek, the upstream request ends.
func TestPeekHangup(t *testing.T) {
	looking, ended := make(chan struct{}), make(chan struct{})
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, _, err := readMessage(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, asChunks+"2\r\nab\r\n")
		_, _ = br.ReadByte()
		close(ended)
	})
	f, glances := peeking(t, newUpstream(t, o.config("")), func() int {
		close(looking)
		return 9
	})
	c := dial(t, f.addr)
	c.send(get)
	await(t, looking, "answer")
	c.Close()
	await(t, ended, "end at the upstream")
	if got := await(t, glances, "glance"); got != (glance{"ab", false}) {
		t.Errorf("saw %v", got)
	}
	if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.ClientGone {
		t.Errorf("outcome %+v", out)
	}
}

// A room has that many bytes of memory.
type room int

func (r *room) Take(n int) bool {
	if *r < room(n) {
		return false
	}
	*r -= room(n)
	return true
}

// If Peek has no memory for a body, the client still gets all of it, in any framing.
func TestPeekWithoutMemory(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 40<<10) // 640 KiB
	const piece = 64 << 10
	chunked := ""
	for rest := body; rest != ""; rest = rest[piece:] {
		chunked += fmt.Sprintf("%x\r\n%s\r\n", piece, rest[:piece])
	}
	for name, answer := range map[string]string{
		"its length": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"chunks":     asChunks + chunked + "0\r\n\r\n",
		"its end":    asRest + body,
	} {
		for _, memory := range []room{0, 1, 100 << 10, 400 << 10} {
			o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
				if _, _, err := readMessage(br); err == nil {
					_, _ = io.WriteString(conn, answer)
				}
			})
			u := newUpstream(t, o.config(""))
			f := &front{up: u, outcomes: make(chan transport.Outcome, 1), errs: make(chan error, 1)}
			f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
				answer, err := do(ctx, u, transport.Call{})
				if err != nil {
					f.errs <- err
					return
				}
				left := memory
				if seen, whole := answer.Peek(1<<20, &left); whole || !strings.HasPrefix(body, string(seen)) {
					t.Errorf("%s, %d bytes: saw %d bytes, whole %t", name, memory, len(seen), whole)
				}
				answer.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { f.outcomes <- o }})
			}, transport.ServerOptions{})
			if _, got, _ := received(t, f, get); got != body {
				t.Errorf("%s, %d bytes of memory: the client got %d bytes of %d", name, memory, len(got), len(body))
			}
			if out := await(t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != int64(len(body)) {
				t.Errorf("%s, %d bytes of memory: outcome %+v", name, memory, out)
			}
		}
	}
}
