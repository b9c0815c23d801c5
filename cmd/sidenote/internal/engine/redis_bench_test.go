//go:build unix

package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/redis/redistest"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/rewrite"
)

// demoStack is everything between a request and the demo's documents, with a
// section redis, "" for none, that works by then. A search may take long: what
// else the machine does is not measured.
func demoStack(tb testing.TB, upstream, redis string) *Engine {
	tb.Helper()
	yaml := fmt.Sprintf("upstream: http://%s\nknowledge: {demo: %q}\npolicies: {default: {context_tokens: 550, retrieval: {deadline: 10s}}}\n", upstream, tb.TempDir())
	if redis != "" {
		yaml += "redis: " + redis + "\n"
	}
	path := filepath.Join(tb.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := New(tb.Context(), cfg, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	content, _, err := knowledge.FromFS(tb.Context(), demo.Corpus(), folder.Folder{ID: "demo"}, s.Reader.Deps())
	if err != nil {
		tb.Fatal(err)
	}
	s.Bases.embedded["demo"].Swap(content)
	if state := s.Shared(tb.Context()); redis != "" && !strings.HasPrefix(state, "shared on redis") {
		tb.Fatal(state)
	}
	return s
}

// numbered is a chat request; the number makes its question another.
func numbered(i int) []byte {
	return fmt.Appendf(nil, `{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},`+
		`{"role":"user","content":"How many weeks of parental leave do I get, with %d children?"}]}`, i)
}

// rewriteTook is how long it takes to put sources into a request; want says where
// they come from.
func rewriteTook(b *testing.B, s *Engine, i int, want retrieval.CacheState) time.Duration {
	b.Helper()
	policy, _ := s.Config.Tenant("default")
	req, err := rewrite.Parse(numbered(i))
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	res := s.Rewriter.Rewrite(b.Context(), policy.Rewrite, req, rewrite.Options{})
	took := time.Since(start)
	if res.Outcome != rewrite.Injected || res.Retrieval.Cache != want {
		b.Fatalf("%s, cache=%s, want %s", res.Outcome, res.Retrieval.Cache, want)
	}
	return took
}

// What a hit costs beyond one in this process when Redis has it, on the same
// machine: two commands' way and the value unpacked. Both kinds alternate.
func BenchmarkRedisHit(b *testing.B) {
	const questions = 500
	server := redistest.Start(b)
	section := fmt.Sprintf("{url: %q, timeout: 5s}", server.URL()) // as patient, for the same reason
	near := demoStack(b, "127.0.0.1:9", section)
	for i := range questions {
		rewriteTook(b, near, i, retrieval.CacheMiss)
	}
	server.WaitFor(fmt.Sprint(questions), "EVAL", "return #redis.call('KEYS', '*:selected:*')", "0")
	var memory, redis []time.Duration
	var far *Engine
	for n := 0; b.Loop(); n++ {
		if n%questions == 0 { // what it was asked before it has in memory
			if far != nil {
				_ = far.Close()
			}
			far = demoStack(b, "127.0.0.1:9", section)
		}
		memory = append(memory, rewriteTook(b, near, n%questions, retrieval.CacheHit))
		redis = append(redis, rewriteTook(b, far, n%questions, retrieval.CacheHit))
	}
	slices.Sort(memory)
	slices.Sort(redis)
	p50 := func(took []time.Duration) float64 { return float64(took[len(took)/2].Nanoseconds()) / 1e3 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p50(memory), "memory-p50-µs")
	b.ReportMetric(p50(redis), "redis-p50-µs")
	b.ReportMetric(p50(redis)-p50(memory), "added-p50-µs")
}

// What a Redis that is gone costs once that is known: requests a second over 16
// connections, each with a question of its own, with and without it in turn. The
// ratio is the median of those of many short turns, by the clock and by the CPU
// time, which other processes disturb less.
func BenchmarkRedisDead(b *testing.B) {
	upstream := listenFast(b, func(ctx *fasthttp.RequestCtx) {
		_ = ctx.PostBody()
		ctx.SetContentType("application/json")
		ctx.SetBodyString(`{"choices":[{"message":{"content":"ok"}}]}`)
	})
	for _, c := range []struct {
		name string
		end  func(*redistest.Fault)
	}{
		{"refused", func(f *redistest.Fault) { f.Refuse(true); f.Reset() }},
		{"blackhole", func(f *redistest.Fault) { f.Blackhole(true) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			fault := redistest.NewFault(b, redistest.Start(b).Addr())
			orphan := demoStack(b, upstream, "redis://"+fault.Addr())
			with, without := listenStack(b, orphan), listenStack(b, demoStack(b, upstream, ""))
			asked := new(atomic.Int64)
			c.end(fault)
			for limit := time.Now().Add(20 * time.Second); !gone(orphan); with.ask(b, asked, 16) {
				if time.Now().After(limit) {
					b.Fatal("it is not known that redis is gone")
				}
			}
			const turn = 64 // requests
			var rates, loads []float64
			var lost, whole time.Duration
			for b.Loop() {
				// There and back, so that neither is always the first.
				a, cpuA := without.ask(b, asked, turn)
				d, cpuD := with.ask(b, asked, 2*turn)
				a2, cpuA2 := without.ask(b, asked, turn)
				whole, lost = whole+a+a2, lost+d
				rates = append(rates, float64(a+a2)/float64(d))
				loads = append(loads, float64(cpuA+cpuA2)/float64(cpuD))
			}
			if !gone(orphan) {
				b.Error("redis was asked meanwhile")
			}
			slices.Sort(rates)
			slices.Sort(loads)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(2*turn*len(rates))/whole.Seconds(), "without-req/s")
			b.ReportMetric(float64(2*turn*len(rates))/lost.Seconds(), "dead-req/s")
			b.ReportMetric(rates[len(rates)/2], "ratio")
			b.ReportMetric(loads[len(loads)/2], "cpu-ratio")
		})
	}
}

// gone tells whether s leaves Redis alone.
func gone(s *Engine) bool {
	for _, store := range s.caches.redis.stores {
		if !store.Open() {
			return false
		}
	}
	return true
}

// A served is a stack that serves as the program does, with its clients.
type served struct{ clients *fasthttp.HostClient }

func listenStack(b *testing.B, s *Engine) served {
	b.Helper()
	server, err := s.DataServer(&proxy.Log{Lines: io.Discard}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	clients := &fasthttp.HostClient{Addr: ln.Addr().String(), MaxConns: 16}
	b.Cleanup(func() {
		clients.CloseIdleConnections()
		if err := server.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return served{clients}
}

// ask sends n requests that nobody has sent before over 16 connections, and
// returns how long that took, and of the CPU.
func (s served) ask(b *testing.B, asked *atomic.Int64, n int) (took, ofCPU time.Duration) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	start, before := time.Now(), cpu(b)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.Header.SetMethod("POST")
			req.SetRequestURI("http://" + s.clients.Addr + "/v1/chat/completions")
			req.Header.SetContentType("application/json")
			for left.Add(-1) >= 0 {
				req.SetBodyRaw(numbered(int(asked.Add(1))))
				err := s.clients.Do(req, resp)
				if status := resp.Header.Peek("Sidenote-Status"); err != nil || resp.StatusCode() != 200 || !strings.Contains(string(status), "cache=miss") {
					b.Errorf("%v, %d: %s", err, resp.StatusCode(), status)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start), cpu(b) - before
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

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
