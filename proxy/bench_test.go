//go:build unix

package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// What the whole proxy costs beside a bare fasthttp relay, in CPU time a
// request. Client and upstream run in this process too, so what a request
// without anything in between costs is taken off both.
func BenchmarkWhole(b *testing.B) {
	upstream := listenFast(b, func(ctx *fasthttp.RequestCtx) {
		_ = ctx.PostBody()
		ctx.SetContentType("application/json")
		ctx.SetBodyString(`{"choices":[{"message":{"content":"ok"}}]}`)
	})
	host := &fasthttp.HostClient{Addr: upstream, MaxConns: 512}
	bare := listenFast(b, func(ctx *fasthttp.RequestCtx) {
		if err := host.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.SetStatusCode(fasthttp.StatusBadGateway)
		}
	})
	whole := listenWhole(b, upstream)
	for _, size := range []int{1 << 10, 20 << 10, 200 << 10} {
		body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}]}`, strings.Repeat("How long is leave? ", size/19))
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			nothing := cpuPerRequest(b, upstream, body, "inject")
			relay := cpuPerRequest(b, bare, body, "inject") - nothing
			off := cpuPerRequest(b, whole, body, "off") - nothing
			sidenote := cpuPerRequest(b, whole, body, "inject") - nothing
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(relay, "bare-cpu-µs/op")
			b.ReportMetric(sidenote, "cpu-µs/op")
			b.ReportMetric(off/relay, "off-ratio")
			b.ReportMetric(sidenote/relay, "ratio")
		})
	}
}

func listenFast(b *testing.B, h fasthttp.RequestHandler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &fasthttp.Server{Handler: h}
	go func() { _ = s.Serve(ln) }()
	b.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// listenWhole starts a proxy whose retriever answers like a warm cache.
func listenWhole(b *testing.B, upstream string) string {
	res := retrieval.Result{Cache: retrieval.CacheHit}
	for i := range 4 {
		res.Sources = append(res.Sources, retrieval.Source{Type: "rag", Knowledge: "kb", Doc: fmt.Sprintf("%d.md", i), Name: "Leave policy", Text: strings.Repeat("Sixteen weeks of leave. ", 20), Score: 5})
	}
	warm := retrieval.Func(func(_ context.Context, _ retrieval.Query) (retrieval.Result, error) { return res, nil })
	s, err := proxy.New(proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: &url.URL{Scheme: "http", Host: upstream}}},
		Tenants:   proxy.Tenants{Unknown: policyOf("acme", func(p *proxy.Policy) { p.Rewrite.ContextTokens = 20_000 })},
		Timeouts:  proxy.DefaultTimeouts(),
	}, &rewrite.Rewriter{Retriever: warm, Models: testModels{}}, newMetrics(),
		slog.New(slog.DiscardHandler), &proxy.Log{Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	b.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// cpuPerRequest posts b.N chat requests over 16 connections and returns the CPU
// time of one in µs.
func cpuPerRequest(b *testing.B, addr string, body []byte, mode string) float64 {
	client := &fasthttp.HostClient{Addr: addr, MaxConns: 64}
	defer client.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(b.N))
	before := cpu(b)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.Header.SetMethod("POST")
			req.SetRequestURI("http://" + addr + "/v1/chat/completions")
			req.Header.SetContentType("application/json")
			req.Header.Set("Sidenote-Mode", mode)
			req.SetBodyRaw(body)
			for left.Add(-1) >= 0 {
				if err := client.Do(req, resp); err != nil || resp.StatusCode() != 200 {
					b.Errorf("%v, %d: %s", err, resp.StatusCode(), resp.Body())
					return
				}
			}
		})
	}
	wg.Wait()
	return float64((cpu(b) - before).Nanoseconds()) / 1e3 / float64(b.N)
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
