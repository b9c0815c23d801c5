package transport_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// Trailers of a chunked answer reach the client, announced or not, except lines about framing or
// the connection.
func TestTrailers(t *testing.T) {
	const sent = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n" +
		"X-Sum: a b\r\nx-more: 1\r\nX-More: 2\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nnot a line\r\n\r\n"
	f := relaying(t, newUpstream(t, answering(t, sent).config("")))
	c := dial(t, f.addr)
	for range 2 { // on one connection: no byte of the trailer may be left on it
		c.send(get)
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "whole" {
			t.Fatalf("%q, %v", body, err)
		}
		want := map[string]string{"X-Sum": "a b", "X-More": "1, 2"}
		for name, value := range want {
			if got := strings.Join(resp.Trailer.Values(name), ", "); got != value {
				t.Errorf("trailer %s: %q, want %q", name, got, value)
			}
		}
		if len(resp.Trailer) != len(want) {
			t.Errorf("trailers %v", resp.Trailer)
		}
		if out := await(t, f.outcomes, "outcome"); out.Err != nil {
			t.Error(out.Err)
		}
	}
}

// A client that cannot read chunks gets no trailer, and the size of trailers is limited.
func TestTrailersThatDoNotPass(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n"
	f := relaying(t, newUpstream(t, answering(t, answer+"X-Sum: 1\r\n\r\n").config("")))
	c := dial(t, f.addr)
	c.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
	if got := c.rest(); !strings.HasSuffix(got, "\r\n\r\nwhole") {
		t.Errorf("an old client got %q", got)
	}
	long := relaying(t, newUpstream(t, answering(t, answer+"X-Sum: "+strings.Repeat("1", 70<<10)+"\r\n\r\n").config("")))
	c = dial(t, long.addr)
	c.send(get)
	if got := c.rest(); strings.HasSuffix(got, "0\r\n\r\n") {
		t.Errorf("a trailer beyond the bound looks whole: %q", got)
	}
	if out := await(t, long.outcomes, "outcome"); out.Err == nil {
		t.Error("a trailer beyond the bound is no error")
	}
}

// Sidenote's own lines, and those that fasthttp cannot write, are neither relayed as trailers nor
// announced.
func TestTrailersOfOurs(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTrailer: X-Sum, SIDENOTE_Status\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n" +
		"Date: then\r\nSet-Cookie: a=1\r\nSidenote-Status: forged\r\nX-Sum: 1\r\n\r\n"
	u := newUpstream(t, answering(t, answer).config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := do(ctx, u, transport.Call{})
		if err != nil {
			t.Error(err)
			return
		}
		answer.Relay(ctx, transport.Relay{Replace: []transport.Header{{Name: "Sidenote-Status", Value: ""}}})
	}, transport.ServerOptions{})
	c := dial(t, addr)
	c.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	const want = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nwhole\r\n0\r\nX-Sum: 1\r\n\r\n"
	if got := c.rest(); got != want {
		t.Errorf("got %q", got)
	}
}
