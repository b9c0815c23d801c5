package answer_test

import (
	"strings"
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// BenchmarkReader reads whole answers. Relaying one costs 20 to 75 µs of CPU (see
// BenchmarkRelay of proxy/transport, which compares both in one run).
func BenchmarkReader(b *testing.B) {
	text := strings.Repeat(`Some words, then \"quoted\" ones that use up room.\n`, 400)
	last := `"usage":{"prompt_tokens":1019,"completion_tokens":20,"total_tokens":1039,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_44709d6fcb"}`
	json := func(n int) []string {
		return []string{`{"id":"c","choices":[{"message":{"content":"` + text[:n] + `"}}],` + last}
	}
	event := `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	var stream []string
	for range 20 {
		stream = append(stream, event)
	}
	for _, c := range []struct {
		name   string
		stream bool
		pieces []string
	}{
		{"JSON, 1 KB", false, json(500)},
		{"JSON, 20 KB", false, json(20_000)},
		{"JSON without, 20 KB", false, []string{`{"id":"c","choices":[{"message":{"content":"` + text[:20_000] + `"}}]}`}},
		{"21 events", true, append(stream[:20:20], `data: {"id":"c","choices":[],`+last+"\n\ndata: [DONE]\n\n")},
		{"21 events without", true, append(stream[:20:20], "data: [DONE]\n\n")},
	} {
		b.Run(c.name, func(b *testing.B) {
			var raw [][]byte
			for _, p := range c.pieces {
				raw = append(raw, []byte(p))
			}
			r := new(answer.UsageReader)
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(route.Chat, c.stream, "")
				for _, p := range raw {
					r.Write(p)
				}
				r.Usage()
			}
		})
	}
}
