package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// BenchmarkServe sends sequential requests through the whole data port, over real sockets. Client
// and upstream allocate nothing.
func BenchmarkServe(b *testing.B) {
	for name, target := range map[string]string{"pass": "/v1/embeddings", "chat": "/v1/chat/completions"} {
		b.Run(name, func(b *testing.B) { serveBench(b, benchServer(b), target) })
	}
}

// serveBench sends sequential requests to a data port.
func serveBench(b *testing.B, addr, target string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("a question ", 90) + `"}]}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%sContent-Length: %d\r\n\r\n%s", target, benchLines, len(body), body)
	r := bufio.NewReader(c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if err := skipBench(r, []byte("Content-Length: ")); err != nil {
			b.Fatal(err)
		}
	}
}

const benchLines = "Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n" +
	"User-Agent: OpenAI/Python 1.99.1\r\nAuthorization: Bearer sk-0123456789012345678901234567890123456789\r\n" +
	"Content-Type: application/json\r\nX-Stainless-Lang: python\r\nX-Stainless-Package-Version: 1.99.1\r\n" +
	"X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\nX-Stainless-Retry-Count: 0\r\n"

// skipBench reads and discards one message.
func skipBench(r *bufio.Reader, length []byte) error {
	n := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if digits, ok := bytes.CutPrefix(line, length); ok {
			for _, c := range bytes.TrimSpace(digits) {
				n = n*10 + int(c-'0')
			}
		}
		if len(line) == len("\r\n") {
			_, err := r.Discard(n)
			return err
		}
	}
}

// benchServer starts a data port in front of an upstream that answers with 1 KB.
func benchServer(b *testing.B, changes ...func(*proxy.Config)) (addr string) {
	return benchServerTo(b, strings.Repeat("x", 1024), changes...)
}

// benchServerTo starts a data port in front of an upstream that always gives the same answer.
func benchServerTo(b *testing.B, body string, changes ...func(*proxy.Config)) (addr string) {
	upstream := listenBench(b)
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: application/json\r\nx-request-id: req_0123456789\r\n"+
		"openai-version: 2020-10-01\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); skipBench(r, []byte("Content-Length: ")) == nil; {
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	metrics := report.NewMetrics(report.MetricNames{Tenants: []string{"t"}, Upstreams: []string{"u"}})
	async := report.NewAsyncWriter(io.Discard)
	cfg := proxy.Config{
		Upstreams: map[string]proxy.Upstream{"u": {BaseURL: &url.URL{Scheme: "http", Host: upstream.Addr().String(), Path: "/v1"}}},
		Tenants:   tenant.Tenants{Unknown: policyOf("t", func(p *tenant.Policy) { p.Upstream, p.Rewrite.Digest, p.RetryTooLong = "u", "digest", true })},
	}
	for _, change := range changes {
		change(&cfg)
	}
	s, err := proxy.New(cfg, &rewrite.Rewriter{Retriever: sixSources(), Models: testModels{}}, metrics, slog.New(slog.DiscardHandler), &report.Log{Logger: slog.New(slog.DiscardHandler), Lines: async})
	if err != nil {
		b.Fatal(err)
	}
	ln := listenBench(b)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	b.Cleanup(func() {
		_ = s.Shutdown(b.Context())
		<-done
		_ = async.Close(b.Context())
	})
	return ln.Addr().String()
}

// sixSources returns the same sources for each search, as a cache does.
func sixSources() retrieval.Retriever {
	res := retrieval.Result{Cache: retrieval.CacheHit}
	for range 6 {
		res.Sources = append(res.Sources, retrieval.Source{
			Type: "rag", Knowledge: "handbook", Doc: "leave/parental-leave.md", Name: "Parental leave", Text: "Parents take leave.", Score: 5,
		})
	}
	return retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) { return res, nil })
}

func listenBench(b *testing.B) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	return ln
}
