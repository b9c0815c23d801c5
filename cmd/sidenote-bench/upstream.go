package main

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A request header, which both relays pass on, selects the upstream's answer.
const (
	answerHeader = "X-Bench-Answer"

	answerWhole = "whole" // one JSON body of 1 KB
	answerBurst = "burst" // streamEvents events, each written separately, as fast as possible
	answerPaced = "paced" // the same with a pause of pace before each but the first
	answerOpen  = "open"  // one event, and the rest after a request of releasePath
)

const (
	streamEvents = 21
	pace         = 2 * time.Millisecond
	releasePath  = "/release"
)

// An upstream answers every request as cheaply as possible.
type upstream struct {
	whole, event, last []byte

	mu       sync.Mutex
	released chan struct{} // closed to release the streams that are open now
}

func upstreamRole([]string) *fasthttp.Server {
	u := &upstream{
		whole: []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"` +
			strings.Repeat("Parents take sixteen weeks. ", 30) + `"},"finish_reason":"stop"}]}`),
		event:    []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{"content":" weeks"},"finish_reason":null}]}` + "\n\n"),
		last:     []byte("data: [DONE]\n\n"),
		released: make(chan struct{}),
	}
	return &fasthttp.Server{Handler: u.handle, Concurrency: 64 << 10, MaxRequestBodySize: 64 << 20, NoDefaultServerHeader: true}
}

func (u *upstream) handle(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) == releasePath {
		u.mu.Lock()
		close(u.released)
		u.released = make(chan struct{})
		u.mu.Unlock()
		return
	}
	kind := string(ctx.Request.Header.Peek(answerHeader))
	if kind == answerWhole || kind == "" {
		ctx.SetContentType("application/json")
		ctx.Response.SetBodyRaw(u.whole)
		return
	}
	u.mu.Lock()
	s := &events{upstream: u, kind: kind, released: u.released}
	u.mu.Unlock()
	ctx.SetContentType("text/event-stream")
	ctx.Response.SetBodyStream(s, -1)
}

// events is a stream: each Read returns one event, which fasthttp flushes.
type events struct {
	upstream *upstream
	kind     string
	released chan struct{}
	sent     int
}

// Read returns the next event when it is due.
func (s *events) Read(p []byte) (int, error) {
	switch {
	case s.sent == streamEvents:
		return 0, io.EOF
	case s.sent == 0:
	case s.kind == answerPaced:
		time.Sleep(pace)
	case s.kind == answerOpen:
		<-s.released
	}
	s.sent++
	if s.sent == streamEvents {
		return copy(p, s.upstream.last), nil
	}
	return copy(p, s.upstream.event), nil
}
