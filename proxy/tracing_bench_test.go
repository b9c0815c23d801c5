//go:build unix

package proxy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"sidenote/proxy"
	"sidenote/retrieval/tracing"
)

// A spanSink takes spans and drops them.
type spanSink struct{}

func (spanSink) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (spanSink) Shutdown(context.Context) error                             { return nil }

// benchTracing samples a share of the requests.
func benchTracing(b *testing.B, share float64) *proxy.Tracing {
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spanSink{}), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return &proxy.Tracing{Sampler: tracing.Sampler{Ratio: share, ParentBased: true}, Tracer: provider.Tracer(tracing.Scope)}
}

// BenchmarkTracing sends chats of 20 KB, in turns to a server without traces and to one that samples
// a share of the requests ("off": without traces too). It reports the CPU time of a request on both,
// with client and upstream, what the share adds to it, and the allocations. At most 3 % at
// a share of 0.01 is wanted.
func BenchmarkTracing(b *testing.B) {
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("a question ", 20<<10/11) + `"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%sContent-Length: %d\r\n\r\n%s", benchLines, len(body), body)
	for _, share := range []float64{-1, 0, 0.01, 1} {
		name := fmt.Sprintf("sampled=%g", share)
		if share < 0 {
			name = "off"
		}
		b.Run(name, func(b *testing.B) {
			off := dialBench(b, benchServer(b))
			on := dialBench(b, benchServer(b, func(cfg *proxy.Config) {
				if share >= 0 {
					cfg.Tracing = benchTracing(b, share)
				}
			}))
			const turn = 100 // requests, of which about one is sampled at a share of 0.01
			var without, with []float64
			took := func(c *benchClient) float64 {
				began := processTime(b)
				for range turn {
					c.ask(b, request)
				}
				return float64((processTime(b) - began).Nanoseconds()) / turn
			}
			for b.Loop() {
				without = append(without, took(off))
				with = append(with, took(on), took(on))
				without = append(without, took(off))
			}
			least := func(all []float64) float64 {
				slices.Sort(all)
				return all[len(all)/10] // slower turns shared their cores with other processes
			}
			a, z := least(without), least(with)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(a/1e3, "off-µs")
			b.ReportMetric(z/1e3, "on-µs")
			b.ReportMetric(100*(z/a-1), "added-%")
			b.ReportMetric(testing.AllocsPerRun(1000, func() { off.ask(b, request) }), "off-allocs")
			b.ReportMetric(testing.AllocsPerRun(1000, func() { on.ask(b, request) }), "on-allocs")
		})
	}
}
