package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// sendTwice returns a front that sends a request's body and peeks at the answer. If that says "too
// long", it sends half of the body again and relays the second answer.
func sendTwice(t *testing.T, u *transport.Upstream) *front {
	f := &front{up: u, outcomes: make(chan transport.Outcome, 100)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		body, whole, err := transport.ReadBody(ctx, 1<<25, patience, nil)
		if err != nil || !whole {
			t.Errorf("body: %v %v", whole, err)
			return
		}
		answer, err := do(ctx, u, transport.Call{Body: [][]byte{body}, Whole: true})
		if err != nil {
			t.Errorf("first: %v", err)
			return
		}
		if seen, whole := answer.Peek(100, nil); answer.Status() == 400 && whole && string(seen) == "too long" {
			answer.Close()
			if answer, err = do(ctx, u, transport.Call{Body: [][]byte{body[:len(body)/2]}, Whole: true}); err != nil {
				t.Errorf("second: %v", err)
				return
			}
		}
		answer.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { f.outcomes <- o }})
	}, transport.ServerOptions{})
	return f
}

// refusals are answers that say "too long" in each framing.
var refusals = map[string]string{
	"fixed":   "HTTP/1.1 400 Bad\r\nContent-Length: 8\r\n\r\ntoo long",
	"chunked": "HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntoo\r\n5\r\n long\r\n0\r\n\r\n",
	"closing": "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\ntoo long",
}

// A refused request is sent again, in part, and only the second answer reaches the client. The
// client's connection stays usable: pipelined requests each get their own answer.
func TestSendAgain(t *testing.T) {
	for name, refusal := range refusals {
		for _, size := range []int{10, 60_000, 300_000, 3_000_000} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				got := make(chan string, 10)
				o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
					for {
						_, body, err := readMessage(br)
						if err != nil {
							return
						}
						got <- describe(body)
						answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
						if len(body) == size {
							answer = refusal
						}
						_, _ = io.WriteString(c, answer)
						if answer == refusals["closing"] {
							return
						}
					}
				})
				f := sendTwice(t, newUpstream(t, o.config("")))
				c := dial(t, f.addr)
				var pipeline strings.Builder
				for _, letter := range "abc" {
					fmt.Fprintf(&pipeline, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat(string(letter), size))
				}
				go func() { _, _ = io.WriteString(c, pipeline.String()) }()
				for _, letter := range "abc" {
					head, body := c.message()
					if want := strings.Repeat(string(letter), size/2); !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || body != want {
						t.Fatalf("%c: got %q and %s", letter, head, describe(body))
					}
					if out := await(t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != int64(size/2) {
						t.Errorf("%c: outcome %+v", letter, out)
					}
					for _, n := range []int{size, size / 2} {
						if first := await(t, got, "request"); first != describe(strings.Repeat(string(letter), n)) {
							t.Errorf("%c: the upstream got %s", letter, first)
						}
					}
				}
				if len(got) != 0 {
					t.Errorf("%d requests more", len(got))
				}
				if n := o.count(); name != "closing" && n != 1 {
					t.Errorf("%d connections to the upstream, want 1", n)
				}
			})
		}
	}
}

func describe(body string) string {
	if body == "" {
		return "nothing"
	}
	if strings.Trim(body, body[:1]) != "" {
		return fmt.Sprintf("%d mixed bytes", len(body))
	}
	return fmt.Sprintf("%d of %q", len(body), body[:1])
}

// An answer that comes before the upstream has read the body is read. The rest of the body is
// dropped with that connection, and the request is sent again as usual.
func TestSendAgainEarly(t *testing.T) {
	const size = 16 << 20 // more than the kernel accepts unless the upstream's buffer grows
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			lengths, second := make(chan int64, 10), make(chan struct{}, 10)
			o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
				_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
				for {
					request, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if request.ContentLength == size {
						lengths <- size
						_, _ = io.WriteString(c, refusal)
						if name == "closing" {
							_ = c.(*net.TCPConn).CloseWrite()
						}
						select {
						case <-second:
						case <-t.Context().Done():
						}
						return
					}
					body, _ := io.ReadAll(request.Body)
					lengths <- int64(len(body))
					second <- struct{}{}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			f := sendTwice(t, newUpstream(t, o.config("")))
			c := dial(t, f.addr)
			for range 3 {
				_ = c.SetDeadline(time.Now().Add(patience))
				go func() {
					_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
				}()
				if head, body := c.message(); body != "ok" || strings.Contains(head, "Connection: close") {
					t.Fatalf("got %q %q", head, body)
				}
				if out := await(t, f.outcomes, "outcome"); out.Err != nil {
					t.Error(out.Err)
				}
				for _, want := range []int64{size, size / 2} {
					if got := await(t, lengths, "request"); got != want {
						t.Errorf("the upstream got %d bytes, want %d", got, want)
					}
				}
			}
		})
	}
}
