package transport_test

import (
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

func TestLinesOfMeaning(t *testing.T) {
	type meaning struct{ addressed, coded bool }
	got := make(chan meaning, 1)
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		got <- meaning{transport.Capture(ctx).HasSidenoteHeader(), transport.Capture(ctx).Coded()}
	}, transport.ServerOptions{})
	for line, want := range map[string]meaning{
		"X: sidenote-mode": {}, "Sidenote: 1": {}, "sIDENOTE-Mode: off": {addressed: true}, "SIDENOTE_X: 1": {addressed: true},
		"Accept-Encoding: gzip": {}, "Content_Encoding: gzip": {}, "cONTENT-Encoding: gzip": {coded: true}, "Content-Encoding:": {coded: true},
	} {
		c := dial(t, addr)
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n" + line + "\r\nZ: 1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if meaning := <-got; meaning != want {
			t.Errorf("%s: %+v, want %+v", line, meaning, want)
		}
	}
}
