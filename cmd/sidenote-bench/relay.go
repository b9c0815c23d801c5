package main

import (
	"time"

	"github.com/valyala/fasthttp"
)

// relayRole is the baseline: the relay that a competent person writes with fasthttp alone. It
// keeps connections alive on both sides, streams and flushes bodies, and removes hop-by-hop
// headers. It inspects nothing, does not notice that a client left, and passes off a truncated
// stream as complete.
func relayRole(args []string) *fasthttp.Server {
	client := &fasthttp.HostClient{
		Addr:                          args[0],
		MaxConns:                      64 << 10,
		MaxIdleConnDuration:           time.Minute,
		NoDefaultUserAgentHeader:      true,
		DisableHeaderNamesNormalizing: true,
		DisablePathNormalizing:        true,
		StreamResponseBody:            true,
		ReadBufferSize:                relayBuffer,
	}
	return &fasthttp.Server{
		Handler:                       func(ctx *fasthttp.RequestCtx) { relay(ctx, client) },
		Concurrency:                   64 << 10,
		ReadBufferSize:                relayBuffer,
		MaxRequestBodySize:            32 << 20,
		NoDefaultServerHeader:         true,
		NoDefaultDate:                 true,
		NoDefaultContentType:          true,
		DisableHeaderNamesNormalizing: true,
	}
}

// relayBuffer holds the head of a request with a bearer token of 16 KB, as in Sidenote.
const relayBuffer = 32 << 10

func relay(ctx *fasthttp.RequestCtx, client *fasthttp.HostClient) {
	request, answer := &ctx.Request, &ctx.Response
	for _, name := range hopByHop() {
		request.Header.Del(name)
	}
	request.URI().SetHost(client.Addr)
	if err := client.Do(request, answer); err != nil {
		answer.Reset()
		ctx.Error("the upstream did not answer", fasthttp.StatusBadGateway)
		return
	}
	for _, name := range hopByHop() {
		answer.Header.Del(name)
	}
	if answer.Header.ContentLength() < 0 { // a stream: its head must not wait for its first event
		answer.ImmediateHeaderFlush = true
	}
}

func hopByHop() [6]string {
	return [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Upgrade"}
}
