package transport_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// recording returns an origin that answers 200 and passes each request, as received, to the test.
func recording(t testing.TB) (*origin, <-chan string) {
	seen := make(chan string, 100)
	return newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		for {
			head, body, err := readMessage(br)
			if err != nil {
				return
			}
			seen <- head + body
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
		}
	}), seen
}

func TestRequestHead(t *testing.T) {
	o, seen := recording(t)
	host := o.ln.Addr().String()
	for name, c := range map[string]struct {
		replace   []transport.Header
		sent, got string
	}{
		"verbatim, in order": {
			sent: "GET /v1/x?b=%2F&a=1+2 HTTP/1.1\r\nx-B: 2\r\nX-a:1\r\nhost: here\r\nCookie: a=b; c\r\nx-B:  3 \r\naccept-encoding: gzip\r\n\r\n",
			got:  "GET /v1/x?b=%2F&a=1+2 HTTP/1.1\r\nx-B: 2\r\nX-a:1\r\nhost: HOST\r\nCookie: a=b; c\r\nx-B:  3 \r\naccept-encoding: gzip\r\n\r\n",
		},
		"this hop only": {
			sent: "GET /v1/x HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Mine\r\nKeep-Alive: 3\r\nTE: trailers\r\nProxy-Authorization: p\r\nProxy-Connection: k\r\nTrailer: T\r\nUpgrade: websocket\r\nx-mine: 1\r\nX-Mine-Too: 2\r\n\r\n",
			got:  "GET /v1/x HTTP/1.1\r\nHost: HOST\r\nX-Mine-Too: 2\r\n\r\n",
		},
		"ours": {
			sent: "GET /v1/x HTTP/1.1\r\nHost: h\r\nSidenote-Mode: off\r\nsidenote_mode: off\r\nSIDENOTE-X: 1\r\nSidenotes: 1\r\n\r\n",
			got:  "GET /v1/x HTTP/1.1\r\nHost: HOST\r\nSidenotes: 1\r\n\r\n",
		},
		"replaced": {
			replace: []transport.Header{{Name: "Authorization", Value: "Bearer ours"}, {Name: "api-key", Value: ""}, {Name: "X-Api-Key", Value: ""}, {Name: "X-New", Value: "1"}},
			sent:    "GET /v1/x HTTP/1.1\r\nHost: h\r\nAPI-KEY: a\r\napi_key: a\r\nauthorization: Bearer theirs\r\nX: 1\r\nx-api-key: b\r\nAuthorization: Basic y\r\n\r\n",
			got:     "GET /v1/x HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer ours\r\nX: 1\r\nX-New: 1\r\n\r\n",
		},
		"length": {
			sent: "POST /v1/x HTTP/1.1\r\nHost: h\r\ncontent-length: 3\r\nX: 1\r\n\r\nabc",
			got:  "POST /v1/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nX: 1\r\n\r\nabc",
		},
		"no body": {
			sent: "POST /v1/x HTTP/1.1\r\nHost: h\r\n\r\n",
			got:  "POST /v1/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		},
		"empty body": {
			sent: "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
			got:  "POST /v1/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n",
		},
		"chunks": {
			sent: "PUT /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n",
			got:  "PUT /v1/x HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\nabc",
		},
		"get with a body": {
			sent: "GET /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab",
			got:  "GET /v1/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\nab",
		},
		"expect, answered here": {
			sent: "POST /v1/x HTTP/1.1\r\nHost: h\r\nexpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
			got:  "POST /v1/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\nab",
		},
		"1.0": {
			sent: "GET /v1/x HTTP/1.0\r\nX: 1\r\n\r\n",
			got:  "GET /v1/x HTTP/1.1\r\nX: 1\r\nHost: HOST\r\n\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &front{up: newUpstream(t, o.config("/v1/")), outcomes: make(chan transport.Outcome, 1), errs: make(chan error, 1)}
			addr := serve(t, func(ctx *fasthttp.RequestCtx) {
				f.relay(ctx, transport.Call{Replace: c.replace})
			}, transport.ServerOptions{})
			dial(t, addr).send(c.sent)
			got := strings.ReplaceAll(await(t, seen, "request"), host, "HOST")
			if diff := cmp.Diff(c.got, got); diff != "" {
				t.Error(diff)
			}
			await(t, f.outcomes, "outcome")
		})
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct{ base, sent, got string }{
		{"", "/v1/models", "/v1/models"},
		{"/", "/v1/models", "/v1/models"},
		{"/v1", "/v1/models", "/v1/models"},
		{"/v1/", "/models", "/v1/models"},
		{"/v1", "/v1", "/v1"},
		{"/v1", "/v1?a=/v1", "/v1?a=/v1"},
		{"/v1", "/v1beta/models", "/v1/v1beta/models"},
		{"/openai/v1", "/v1/a//b/../c;d%2e?e=f?g", "/openai/v1/a//b/../c;d%2e?e=f?g"},
		{"/a%2Fb", "/c%20d", "/a%2Fb/c%20d"},
		{"/v1", "//v1/x", "/v1//v1/x"},
		{"/v1", "http://other.example/v1/models?x", "/v1/models?x"},
		{"", "http://other.example?x", "/?x"},
		{"", "https://user@other.example", "/"},
		{"/v1", "*", "*"},
	} {
		if got, ok := transport.Target(c.base, c.sent); !ok || got != c.got {
			t.Errorf("%q + %q = %q %v, want %q", c.base, c.sent, got, ok, c.got)
		}
	}
	for _, sent := range []string{"", "other.example:443", "://x/y", "x"} {
		if got, ok := transport.Target("", sent); ok {
			t.Errorf("%q became %q", sent, got)
		}
	}
}
