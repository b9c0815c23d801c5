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

// BenchmarkTools alternates between chats of four policies: one that relays, one that injects, one
// in mode tools whose model calls nothing, and the same with a model that searches in three
// rounds. It reports the time of each relative to a relayed chat, and that of each further round:
// at most 1.5 is wanted. The times are CPU times of the process, as in BenchmarkLimited. The
// search itself costs nothing here.
func BenchmarkTools(b *testing.B) {
	for name, stream := range map[string]bool{"whole": false, "stream": true} {
		b.Run(name, func(b *testing.B) {
			const further = 3
			mode := func(of rewrite.Mode) func(*tenant.Policy) {
				return func(p *tenant.Policy) {
					if p.Rewrite.Mode = of; of == rewrite.Tools {
						p.Tools = toolPolicy()
					}
				}
			}
			clients := []*benchClient{
				benchRounds(b, 0, stream, mode(rewrite.Off)), benchRounds(b, 0, stream, mode(rewrite.Inject)),
				benchRounds(b, 0, stream, mode(rewrite.Tools)), benchRounds(b, further, stream, mode(rewrite.Tools)),
			}
			body := fmt.Sprintf(`{"model":"gpt-4o","stream":%t,"messages":[{"role":"user","content":"%s"}]}`, stream, strings.Repeat("a question ", 90))
			request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%sContent-Length: %d\r\n\r\n%s", benchLines, len(body), body)
			const block = 10
			works := make([][]float64, len(clients))
			for n := 0; b.Loop(); n++ {
				for i := range clients {
					i = (i + n) % len(clients) // rotate the order
					used := processTime(b)
					for range block {
						clients[i].askChunked(b, request)
					}
					works[i] = append(works[i], float64(processTime(b)-used)/block)
				}
			}
			for i := range works {
				slices.Sort(works[i])
			}
			at := func(i int) float64 { return works[i][len(works[i])/10] }
			b.ReportMetric(at(0), "ns-relayed")
			b.ReportMetric(at(1)/at(0), "injected/relayed")
			b.ReportMetric(at(2)/at(0), "offered/relayed")
			b.ReportMetric((at(3)-at(2))/further/at(0), "round/relayed")
		})
	}
}

// benchRounds connects to a data port whose model searches that many times before it answers.
func benchRounds(b *testing.B, searches int, stream bool, change func(*tenant.Policy)) *benchClient {
	b.Helper()
	habit := answertest.Habits()[0]
	var answers [][]byte
	for n := range searches + 1 {
		a := answertest.Answer{Text: strings.Repeat("an answer ", 60), Finish: "stop"}
		if n < searches {
			a = answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: fmt.Sprintf(`{"query":"leave %d","top_k":1}`, n)}}}
		}
		body, kind := answertest.Bytes(a, habit, stream)
		answers = append(answers, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body))
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
					if _, err := c.Write(answers[min(bytes.Count(body, []byte(`"role":"tool"`)), searches)]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return dialBench(b, benchServer(b, func(cfg *proxy.Config) {
		cfg.Upstreams = map[string]proxy.Upstream{"u": {BaseURL: &url.URL{Scheme: "http", Host: upstream.Addr().String(), Path: "/v1"}}}
		cfg.Tools = &proxy.RoundsKit{Box: newBox()}
		change(cfg.Tenants.Unknown)
	}))
}

// readBench reads a request into reused memory.
func readBench(r *bufio.Reader, body []byte) ([]byte, error) {
	n := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return body, err
		}
		if digits, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, c := range bytes.TrimSpace(digits) {
				n = n*10 + int(c-'0')
			}
		}
		if len(line) == len("\r\n") {
			body = slices.Grow(body[:0], n)[:n]
			_, err := io.ReadFull(r, body)
			return body, err
		}
	}
}

// askChunked is ask for answers of known length or in chunks.
func (c *benchClient) askChunked(b *testing.B, request []byte) {
	if _, err := c.conn.Write(request); err != nil {
		b.Fatal(err)
	}
	n := -1
	for {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if digits, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			n = 0
			for _, d := range bytes.TrimSpace(digits) {
				n = n*10 + int(d-'0')
			}
		}
		if len(line) == len("\r\n") {
			break
		}
	}
	for last := n >= 0; ; {
		if last {
			if _, err := c.answers.Discard(max(n, 0)); err != nil {
				b.Fatal(err)
			}
			return
		}
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		size := 0
		if _, err := fmt.Sscanf(string(line), "%x", &size); err != nil {
			b.Fatal(err)
		}
		if last, n = size == 0, 2; last {
			continue
		}
		if _, err := c.answers.Discard(size + 2); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkToolsLeave reports how long it takes until everything has ended after a client left: a
// 99th percentile of at most 50 ms is wanted.
func BenchmarkToolsLeave(b *testing.B) {
	for name, d := range leaveCases(b) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			var took []float64
			for b.Loop() {
				hangs := make(chan error)
				u := answertest.Start(b, d, plain())
				addr := benchServer(b, func(cfg *proxy.Config) {
					*cfg = withTools(b, u.URL, nil)
					cfg.Tools.Box.Retriever = staff{hangs}
				})
				c := dialBench(b, addr).conn
				if _, err := io.WriteString(c, chatRequest(weeksStream)); err != nil {
					b.Fatal(err)
				}
				took = append(took, float64(leave(b, u, hangs, c.Close).Microseconds())/1000)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)*99/100], "ms-p99")
		})
	}
}
