package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report/reporttest"
)

// The usage of an answer is read on every listed route, whatever form the answer has, and is in
// the report and the metrics. The answer is relayed unchanged. (U6, U11)
func TestUsageOfEveryAnswer(t *testing.T) {
	const (
		told      = `"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":3}}`
		responses = `"usage":{"input_tokens":19,"output_tokens":10,"input_tokens_details":{"cached_tokens":7},"output_tokens_details":{"reasoning_tokens":3}}`
		okStream  = "200 OK\r\nContent-Type: text/event-stream"
		text      = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
	)
	all := answer.Usage{Input: 19, CachedInput: 7, Output: 10, Reasoning: 3, Known: true}
	for name, c := range map[string]struct {
		path, head, answer string
		want               answer.Usage
		found              answer.UsageFinding
	}{
		"chat":                   {"/v1/chat/completions", okJSON, `{"choices":[],` + told + `}`, all, answer.UsageFound},
		"chat, streamed":         {"/v1/chat/completions", okStream, text + "data: {\"choices\":[]," + told + "}\n\ndata: [DONE]\n\n", all, answer.UsageFound},
		"chat, no DONE":          {"/v1/chat/completions", okStream, text + "data: {\"choices\":[]," + told + "}\n\n", all, answer.UsageFound},
		"chat, stream, no usage": {"/v1/chat/completions", okStream, text + "data: [DONE]\n\n", answer.Usage{}, answer.UsageAbsent},
		"chat, error in stream":  {"/v1/chat/completions", okStream, text + "data: {\"error\":{\"message\":\"no\"}}\n\n", answer.Usage{}, answer.UsageUpstreamFailed},
		"chat, gzip":             {"/v1/chat/completions", okJSON + "\r\nContent-Encoding: gzip", gzipped(t, `{"choices":[],`+told+`}`), all, answer.UsageFound},
		"chat, no gzip":          {"/v1/chat/completions", okJSON + "\r\nContent-Encoding: gzip", `{"choices":[],` + told + `}`, answer.Usage{}, answer.UsageUndecodable},
		"completions":            {"/v1/completions", okJSON, `{` + told + `}`, all, answer.UsageFound},
		"responses":              {"/v1/responses", okJSON, `{"output":[],` + responses + `,"metadata":{}}`, all, answer.UsageFound},
		"responses, streamed":    {"/v1/responses", okStream, "event: response.completed\ndata: {\"response\":{" + responses + "}}\n\n", all, answer.UsageFound},
		"embeddings":             {"/v1/embeddings", okJSON, `{"data":[],"usage":{"prompt_tokens":19,"total_tokens":19}}`, answer.Usage{Input: 19, Known: true}, answer.UsageFound},
		"moderations":            {"/v1/moderations", okJSON, `{` + told + `}`, answer.Usage{}, ""},
		"an error":               {"/v1/chat/completions", "400 Bad\r\nContent-Type: application/json", `{` + told + `}`, answer.Usage{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(_ seen, w io.Writer) {
				fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", c.head, len(c.answer), c.answer)
			})
			g := open(t, u, nil)
			resp := g.raw(t, strings.Replace(chatRequest(chatBody, "Accept-Encoding: gzip"), "/v1/chat/completions", c.path, 1))
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != c.answer {
				t.Errorf("relayed %q, %v", body, err)
			}
			if r := g.reports.next(t); r.Usage != c.want || r.UsageFound != c.found {
				t.Errorf("read %+v, %s", r.Usage, r.UsageFound)
			}
			for kind, want := range map[string]int64{"input": c.want.Input, "cached_input": c.want.CachedInput, "output": c.want.Output, "reasoning": c.want.Reasoning} {
				if got := reporttest.Count(t, g.metrics, "sidenote_tokens_total", kind); got != float64(want) {
					t.Errorf("%v tokens of %s counted, want %d", got, kind, want)
				}
			}
		})
	}
}

// While the limit of concurrent decoders is reached, a compressed answer is relayed as usual, and
// the metrics count that its usage was not read.
func TestUsageIsShed(t *testing.T) {
	ans := gzipped(t, `{"usage":{"prompt_tokens":19,"completion_tokens":10}}`)
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", okJSON, len(ans), ans)
	})
	g := open(t, u, nil)
	free := proxy.OccupyDecoders(g.server)
	if _, body := g.post(t, chatBody, "Accept-Encoding: gzip"); body != ans {
		t.Errorf("relayed %q", body)
	}
	if r := g.reports.next(t); r.UsageFound != answer.UsageUnread || r.Usage != (answer.Usage{}) {
		t.Errorf("read %+v, %s", r.Usage, r.UsageFound)
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_shed_total", "usage"); n != 1 {
		t.Errorf("shed %v", n)
	}
	free()
	g.post(t, chatBody, "Accept-Encoding: gzip")
	if r := g.reports.next(t); r.Usage.Output != 10 {
		t.Errorf("read %+v, %s", r.Usage, r.UsageFound)
	}
}
