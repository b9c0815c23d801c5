package transport_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

func TestClose(t *testing.T) {
	o := answering(t, "HTTP/1.1 400 Too long\r\nContent-Length: 7\r\n\r\ntoolong")
	u := newUpstream(t, o.config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		body, whole, err := transport.ReadBody(ctx, 100, patience, nil)
		if err != nil || !whole {
			t.Errorf("body: %v %v", whole, err)
		}
		for try := range 3 {
			answer, err := do(ctx, u, transport.Call{Body: [][]byte{body[try:]}, Whole: true})
			if err != nil {
				t.Errorf("try %d: %v", try, err)
				return
			}
			if try < 2 {
				answer.Close()
				continue
			}
			answer.Relay(ctx, transport.Relay{OnPiece: func(p []byte) {
				if string(p) != "toolong" {
					t.Errorf("tap saw %q", p)
				}
			}})
		}
	}, transport.ServerOptions{})
	c := dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
	if _, body := c.message(); body != "toolong" {
		t.Errorf("got %q", body)
	}
	if n := o.count(); n != 1 {
		t.Errorf("%d connections to the upstream, want 1", n)
	}
}

// If a handler neither relays nor closes an Answer, its connection is returned and the client gets
// an answer.
func TestForgottenAnswer(t *testing.T) {
	ended := make(chan struct{})
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, _, err := readMessage(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			_, _ = br.ReadByte()
			close(ended)
		}
	})
	u := newUpstream(t, o.config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		if _, err := do(ctx, u, transport.Call{}); err != nil {
			t.Error(err)
		}
		panic(errors.New("a bug in the handler"))
	}, transport.ServerOptions{Panicked: func(v any, stack []byte) {
		if !strings.Contains(string(stack), "relay_test.go") {
			t.Errorf("%v without its stack", v)
		}
	}})
	c := dial(t, addr)
	c.send(get)
	if head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 500 ") {
		t.Errorf("got %q", head)
	}
	if !c.ended() {
		t.Error("the connection stays open after a panic")
	}
	await(t, ended, "end at the upstream")
}
