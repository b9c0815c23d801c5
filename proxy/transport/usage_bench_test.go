//go:build unix

package transport_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
)

// BenchmarkUsage compares the CPU time for reading an answer's usage with that for relaying it, in
// the same run. The ratio is what reading adds to a relayed answer.
func BenchmarkUsage(b *testing.B) {
	const told = `"usage":{"prompt_tokens":1019,"completion_tokens":20,"total_tokens":1039,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"system_fingerprint":"fp_44709d6fcb"}`
	const event = `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"
	ans := func(n int) string {
		return `{"id":"c","choices":[{"message":{"content":"` + strings.Repeat(`Some words, then \"quoted\" ones.\n`, n/36) + `"}}],` + told
	}
	for _, c := range []struct {
		name, body string
		stream     bool
	}{
		{"1KB", ans(600), false},
		{"20KB", ans(20 << 10), false},
		{"21chunks", strings.Repeat(event, 20) + `data: {"choices":[],` + told + "\n\ndata: [DONE]\n\n", true},
	} {
		b.Run(c.name, func(b *testing.B) {
			head, body := fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d", len(c.body)), c.body
			pieces := [][]byte{[]byte(c.body)}
			if c.stream {
				pieces, body = nil, ""
				for e := range strings.SplitAfterSeq(c.body, "\n\n") {
					if e != "" {
						pieces, body = append(pieces, []byte(e)), body+fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
					}
				}
				head, body = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked", body+"0\r\n\r\n"
			}
			origin := benchOrigin(b, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n"+body)
			u := newUpstream(b, transport.Config{BaseURL: mustURL(origin)})
			ours := serve(b, func(ctx *fasthttp.RequestCtx) {
				answer, err := do(ctx, u, transport.Call{})
				if err != nil {
					b.Error(err)
					return
				}
				answer.Relay(ctx, transport.Relay{})
			}, transport.ServerOptions{})
			var direct, relay, reading time.Duration
			r := new(answer.UsageReader)
			for b.Loop() { // in rounds, so that other load on the machine affects all three
				direct += load(b, origin)
				relay += load(b, ours)
				before := cpu()
				for range roundRequests {
					r.Reset(route.Chat, c.stream, "")
					for _, p := range pieces {
						r.Write(p)
					}
					if u, found := r.Usage(); found != answer.UsageFound || u.Input != 1019 {
						b.Fatal(u, found)
					}
				}
				reading += cpu() - before
			}
			per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(b.N*roundRequests) }
			b.ReportMetric(per(relay-direct), "relay-µs/req")
			b.ReportMetric(per(reading), "usage-µs/req")
			b.ReportMetric(float64(reading)/float64(relay-direct), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
