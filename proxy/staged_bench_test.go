//go:build unix

package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// BenchmarkStaged alternates between a chat that is relayed as a whole, one that is relayed as a
// stream, and one that is answered in four stages. It reports the staged answer's time relative to
// four relayed chats, of which one is a stream if the last stage is: at most 1.5 is wanted. The
// times are CPU times of the process, as in BenchmarkLimited. The search itself costs nothing
// here.
func BenchmarkStaged(b *testing.B) {
	for name, stream := range map[string]bool{"whole": false, "stream": true} {
		b.Run(name, func(b *testing.B) {
			relayed := benchStages(b, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off })
			staged := benchStages(b, func(p *tenant.Policy) { inStages(b, p, stagedTerms{}) })
			work := []struct {
				client  *benchClient
				request []byte
			}{{relayed, benchChat(false)}, {relayed, benchChat(stream)}, {staged, benchChat(stream)}}
			const block = 10
			took := make([][]float64, len(work))
			for n := 0; b.Loop(); n++ {
				for i := range work {
					i = (i + n) % len(work) // rotate the order
					used := processTime(b)
					for range block {
						work[i].client.askChunked(b, work[i].request)
					}
					took[i] = append(took[i], float64(processTime(b)-used)/block)
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			at := func(i int) float64 { return took[i][len(took[i])/10] }
			b.ReportMetric(at(0), "ns-relayed")
			b.ReportMetric(at(1), "ns-relayed-stream")
			b.ReportMetric(at(2), "ns-staged")
			b.ReportMetric(at(2)/(3*at(0)+at(1)), "staged/4-relayed")
		})
	}
}

// benchChat returns a chat of 1 KB as a client sends it.
func benchChat(stream bool) []byte {
	body := fmt.Sprintf(`{"model":"gpt-4o","stream":%t,"messages":[{"role":"user","content":"%s"}]}`, stream, strings.Repeat("a question ", 90))
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%sContent-Length: %d\r\n\r\n%s", benchLines, len(body), body)
}

// benchStages connects to a data port whose model answers with 600 characters, as a stream if
// asked for.
func benchStages(b *testing.B, change func(*tenant.Policy)) *benchClient {
	b.Helper()
	var answers [2][]byte
	for i := range answers {
		body, kind := answertest.Bytes(answertest.Answer{Text: strings.Repeat("an answer ", 60), Finish: "stop"}, answertest.Habits()[0], i == 1)
		answers[i] = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)
	}
	upstream := listenBench(b)
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, body := bufio.NewReader(c), []byte(nil)
				for {
					if body, err = readBench(r, body); err != nil {
						return
					}
					answer := answers[0]
					if bytes.Contains(body, []byte(`"stream":true`)) {
						answer = answers[1]
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return dialBench(b, benchServer(b, func(cfg *proxy.Config) {
		cfg.Upstreams = map[string]proxy.Upstream{"u": {BaseURL: &url.URL{Scheme: "http", Host: upstream.Addr().String(), Path: "/v1"}}}
		change(cfg.Tenants.Unknown)
	}))
}

// BenchmarkStagedLeave reports how long it takes to close the upstream's connection after a client
// left: a 99th percentile of at most 50 ms is wanted.
func BenchmarkStagedLeave(b *testing.B) {
	for name, d := range stageLeaves(b) {
		for way, body := range map[string]string{"whole": weeksBody, "stream": weeksStream} {
			b.Run(strings.ReplaceAll(name, " ", "_")+"/"+way, func(b *testing.B) {
				var took []float64
				for b.Loop() {
					u := answertest.Start(b, d, plain())
					addr := benchServer(b, func(cfg *proxy.Config) { *cfg = withStages(b, u.URL, stagedTerms{}) })
					c := dialBench(b, addr).conn
					if _, err := io.WriteString(c, chatRequest(body)); err != nil {
						b.Fatal(err)
					}
					took = append(took, float64(leave(b, u, nil, c.Close).Microseconds())/1000)
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)*99/100], "ms-p99")
			})
		}
	}
}
