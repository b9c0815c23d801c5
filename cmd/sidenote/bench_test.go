//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/proxy"
	"sidenote/retrieval/knowledge"
)

// What the whole of Sidenote costs beside a bare fasthttp relay, in CPU time a
// request: the real chain over the demo's documents, its caches warm, its log
// written to nowhere. Client and upstream run in this process too, so what a
// request without anything in between costs is taken off both. The rounds of
// all of them alternate: machines are noisy, ratios less so.
func BenchmarkWhole(b *testing.B) {
	tune(os.LookupEnv)
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
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			body := chatOf(size)
			runs := []struct {
				addr, mode string
				cpu        time.Duration
			}{{addr: upstream, mode: "off"}, {addr: bare, mode: "off"}, {addr: whole, mode: "off"}, {addr: whole, mode: "inject"}}
			const rounds = 8
			each := max(1, b.N/rounds)
			for range rounds {
				for i := range runs {
					runs[i].cpu += load(b, runs[i].addr, runs[i].mode, body, each)
				}
			}
			perRequest := func(i int) float64 {
				return float64((runs[i].cpu - runs[0].cpu).Nanoseconds()) / 1e3 / float64(rounds*each)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(perRequest(1), "bare-cpu-µs/op")
			b.ReportMetric(perRequest(2)/perRequest(1), "off-ratio")
			b.ReportMetric(perRequest(3)/perRequest(1), "inject-ratio")
		})
	}
}

// chatOf is a chat request of about n bytes: a system prompt, short questions
// and longer answers in turn, a last question.
func chatOf(n int) []byte {
	const line = `We have talked about the weather for a while, and about \"what comes next\", and went on to lunch.\n`
	var s strings.Builder
	s.WriteString(`{"model":"gpt-4o","messages":[{"role":"system","content":"You are the HR assistant of a small company.\nAnswer briefly."}`)
	for i := 0; s.Len() < n-220; i++ {
		role, lines := "user", 1
		if i%2 == 1 {
			role, lines = "assistant", min(16, (n-s.Len())/len(line)-1)
		}
		fmt.Fprintf(&s, `,{"role":%q,"content":"Turn %d. %s"}`, role, i, strings.Repeat(line, max(lines, 1)))
	}
	s.WriteString(`,{"role":"user","content":"How many weeks of parental leave do I get?"}],"temperature":0.2}`)
	return []byte(s.String())
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

// listenWhole starts what serve starts, on the demo's documents. A request grows
// by about 2 KB.
func listenWhole(b *testing.B, upstream string) string {
	path := filepath.Join(b.TempDir(), "sidenote.yaml")
	yaml := fmt.Sprintf("upstream: http://%s\nknowledge: {demo: %q}\npolicies: {default: {context_tokens: 550}}\n", upstream, b.TempDir())
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		b.Fatal(err)
	}
	s, err := build(b.Context(), cfg, home{}, unheard)
	if err != nil {
		b.Fatal(err)
	}
	content, _, err := knowledge.FromFS(b.Context(), demo.Corpus(), knowledge.Folder{ID: "demo"}, s.reading())
	if err != nil {
		b.Fatal(err)
	}
	s.embedded["demo"].Swap(content)
	server, err := s.data(&proxy.Log{Lines: io.Discard}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	b.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		_ = s.close()
	})
	return ln.Addr().String()
}

// load sends n chat requests over 16 connections and returns the CPU time of
// the process meanwhile.
func load(b *testing.B, addr, mode string, body []byte, n int) time.Duration {
	client := &fasthttp.HostClient{Addr: addr, MaxConns: 64}
	defer client.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(n))
	before := cpu(b)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.Header.SetMethod("POST")
			req.SetRequestURI("http://" + addr + "/v1/chat/completions")
			req.Header.SetContentType("application/json")
			if mode == "off" { // to inject is the policy's own mode
				req.Header.Set("Sidenote-Mode", mode)
			}
			req.SetBodyRaw(body)
			for left.Add(-1) >= 0 {
				if err := client.Do(req, resp); err != nil || resp.StatusCode() != 200 {
					b.Errorf("%v, %d: %s", err, resp.StatusCode(), resp.Body())
					return
				}
			}
			if status := string(resp.Header.Peek("Sidenote-Status")); status != "" && mode == "inject" && !strings.HasPrefix(status, "injected") {
				b.Errorf("%s", status)
			}
		})
	}
	wg.Wait()
	return cpu(b) - before
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
