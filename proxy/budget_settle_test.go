package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// spentAs returns the amount of a call of model m.
func spentAs(input, cached, output int64) budget.Amount {
	return budget.Amount{Requests: 1, Tokens: input + output, Money: (input-cached)*1000 + cached*500 + output*2000}
}

// What a request is charged, by its outcome; nothing stays held. Prompts are counted in bytes
// here, and an answer may have 1000 tokens. (C18, U1, U3, U5, U14)
func TestBudgetIsSettled(t *testing.T) {
	const (
		sse   = "200 OK\r\nContent-Type: text/event-stream"
		event = "data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n"
		told  = `"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":7}}`
		text  = `"choices":[{"message":{"content":"abcd"}}]`
		input = `{"model":"m","input":"abcdefg"}`
		file  = `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`
	)
	fileTokens := int64(wholeCost(t, file) + model.FileTokens + 16) // 16 for errors of the formulas
	prompt := int64(wholeCost(t, chatBody))
	item := int64(costOf(t, chat.Responses, input))
	brief := int64(costOf(t, chat.Responses, `{"instructions":"Be brief.",`+input[1:]))
	with := func(fields string) string { return "{" + fields + chatBody[1:] }
	lie := func(fields string) string { return `{` + text + `,"usage":{` + fields + `}}` }
	for name, c := range map[string]struct {
		path, body   string // of the request; /chat/completions and chatBody if absent
		head, answer string
		length       int           // announced length; 0: that of answer
		reserved     budget.Amount // zero: the prompt and 1000 tokens
		want         budget.Amount
		by           answer.SettlementBasis
		implausible  bool
	}{
		"told":                 {head: okJSON, answer: `{` + text + `,` + told + `}`, want: spentAs(19, 7, 10), by: answer.SettledAsReported},
		"told, hidden":         {body: with(`"stream":true,`), head: sse, answer: event + "data: {\"choices\":[]," + told + "}\n\ndata: [DONE]\n\n", want: spentAs(19, 7, 10), by: answer.SettledAsReported},
		"told, n: 128 (C18)":   {body: with(`"n":128,`), head: okJSON, answer: `{` + text + `,` + told + `}`, reserved: spentAs(prompt, 0, 128_000), want: spentAs(19, 7, 10), by: answer.SettledAsReported},
		"n: 128, untold":       {body: with(`"n":128,`), head: "504 Late\r\nContent-Type: text/plain", reserved: spentAs(prompt, 0, 128_000), want: spentAs(prompt, 0, 128_000), by: answer.SettledAsEstimated},
		"its own limit":        {body: with(`"max_tokens":7,`), head: "504 Late\r\nContent-Type: text/plain", reserved: spentAs(prompt, 0, 7), want: spentAs(prompt, 0, 7), by: answer.SettledAsEstimated},
		"untold":               {head: okJSON, answer: `{` + text + `}`, want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted},
		"stream, untold":       {body: with(`"stream":true,`), head: sse, answer: event + event + "data: [DONE]\n\n", want: spentAs(prompt, 0, 6), by: answer.SettledAsCounted},
		"cut (U5)":             {body: with(`"stream":true,`), head: sse, answer: event + "data: {\"choi", length: 1000, want: spentAs(prompt, 0, 3), by: answer.SettledAsCounted},
		"error in stream":      {body: with(`"stream":true,`), head: sse, answer: "data: {\"error\":{}}\n\n", by: answer.SettledAsNothing},
		"400 (U3)":             {head: "400 Bad\r\nContent-Type: application/json", answer: `{` + told + `}`, by: answer.SettledAsNothing},
		"429 (U3)":             {head: "429 Slow\r\nContent-Type: application/json", answer: "{}", by: answer.SettledAsNothing},
		"500 (U3)":             {head: "500 Oh\r\nContent-Type: application/json", answer: "{}", by: answer.SettledAsNothing},
		"504 (U3)":             {head: "504 Late\r\nContent-Type: application/json", answer: "{}", want: spentAs(prompt, 0, 1000), by: answer.SettledAsEstimated},
		"lies: 10^18 (U14)":    {head: okJSON, answer: lie(`"prompt_tokens":1000000000000000000,"completion_tokens":1`), want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted},
		"lies: high (U14)":     {head: okJSON, answer: lie(`"prompt_tokens":19,"completion_tokens":2001`), want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted, implausible: true},
		"lies: none (U14)":     {head: okJSON, answer: lie(`"prompt_tokens":0,"completion_tokens":0`), want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted, implausible: true},
		"lies: less (U14)":     {head: okJSON, answer: lie(`"prompt_tokens":-1,"completion_tokens":1`), want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted},
		"lies: text (U14)":     {head: okJSON, answer: lie(`"prompt_tokens":"1","completion_tokens":"1"`), want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted},
		"completions":          {path: "/v1/completions", body: `{"model":"m","prompt":"abcde","best_of":3}`, head: okJSON, answer: `{` + told + `}`, reserved: spentAs(42, 0, 48), want: spentAs(19, 7, 10), by: answer.SettledAsReported},
		"responses":            {path: "/v1/responses", body: input, head: okJSON, answer: `{"output":[],"usage":{"input_tokens":19,"output_tokens":10}}`, reserved: spentAs(item, 0, 1000), want: spentAs(19, 0, 10), by: answer.SettledAsReported},
		"responses, continued": {path: "/v1/responses", body: `{"previous_response_id":"r",` + input[1:], head: okJSON, answer: `{"output":[],"usage":{"input_tokens":50000,"output_tokens":10}}`, reserved: spentAs(item, 0, 1000), want: spentAs(50000, 0, 10), by: answer.SettledAsReported},
		"responses, untold":    {path: "/v1/responses", body: `{"instructions":"Be brief.",` + input[1:], head: "504 Late\r\nContent-Type: text/plain", reserved: spentAs(brief, 0, 1000), want: spentAs(brief, 0, 1000), by: answer.SettledAsEstimated},
		"tokens counted":       {path: "/v1/responses/input_tokens", body: input, head: okJSON, answer: `{"object":"response.input_tokens","input_tokens":120}`, reserved: spentAs(0, 0, 0), want: spentAs(0, 0, 0), by: answer.SettledAsEstimated},
		"responses, compacted": {path: "/v1/responses/compact", body: input, head: okJSON, answer: `{"output":[],"usage":{"input_tokens":19,"output_tokens":10}}`, reserved: spentAs(item, 0, 1000), want: spentAs(19, 0, 10), by: answer.SettledAsReported},
		"a file":               {body: file, head: okJSON, answer: lie(`"prompt_tokens":50000,"completion_tokens":10`), reserved: spentAs(fileTokens, 0, 1000), want: spentAs(50000, 0, 10), by: answer.SettledAsReported},
		"lies: input (U14)":    {head: okJSON, answer: lie(`"prompt_tokens":50000,"completion_tokens":10`), want: spentAs(prompt, 0, 4), by: answer.SettledAsCounted, implausible: true},
		"embeddings":           {path: "/v1/embeddings", body: input, head: okJSON, answer: `{"data":[],"usage":{"prompt_tokens":8}}`, reserved: spentAs(9, 0, 0), want: spentAs(8, 0, 0), by: answer.SettledAsReported},
		"embeddings, untold":   {path: "/v1/embeddings", body: input, head: okJSON, answer: `{"data":[]}`, reserved: spentAs(9, 0, 0), want: spentAs(9, 0, 0), by: answer.SettledAsEstimated},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []rewrite.Mode{rewrite.Inject, rewrite.Off, rewrite.Shadow} {
				u := newUpstream(t, func(_ seen, w io.Writer) {
					fmt.Fprintf(w, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", c.head, max(c.length, len(c.answer)), c.answer)
					_ = w.(io.Closer).Close()
				})
				b := newTill(t)
				g := openLimited(t, b, u, limited(t, plenty(), func(p *tenant.Policy) { p.Rewrite.Mode = mode }), nil)
				path, body, reserved := c.path, c.body, c.reserved
				if path == "" {
					path = "/v1/chat/completions"
				}
				if body == "" {
					body = chatBody
				}
				if reserved == (budget.Amount{}) {
					reserved = spentAs(prompt, 0, 1000)
				}
				resp := g.raw(t, strings.Replace(chatRequest(body), "/v1/chat/completions", path, 1))
				_, _ = io.Copy(io.Discard, resp.Body) // one answer is cut
				r := g.reports.next(t)
				if r.Budget.Estimate != reserved || r.Budget.Charged != c.want || r.Budget.By != c.by || r.Budget.Implausible != c.implausible || r.Budget.Rung != "" {
					t.Errorf("%s: %+v, want %+v reserved, %+v charged as %s", mode, r.Budget, reserved, c.want, c.by)
				}
				if got := b.usage(t); got.Day.Spent != c.want || got.Month.Spent != c.want {
					t.Errorf("%s: spent %+v, want %+v", mode, got.Day.Spent, c.want)
				}
			}
		})
	}
}

// A call without an answer costs nothing if it cannot have reached the upstream, and otherwise its
// estimate. (U1, U2)
func TestBudgetWithoutAnAnswer(t *testing.T) {
	prompt := int64(wholeCost(t, chatBody))
	for name, c := range map[string]struct {
		answer  func(seen, io.Writer)
		refused bool
		status  int
		want    budget.Amount
		by      answer.SettlementBasis
	}{
		"refused (U1)": {nil, true, 502, budget.Amount{}, answer.SettledAsNothing},
		"reset":        {func(_ seen, w io.Writer) { w.(io.Closer).Close() }, false, 502, spentAs(prompt, 0, 1000), answer.SettledAsEstimated},
		"silent (U2)":  {func(_ seen, w io.Writer) { _, _ = io.Copy(io.Discard, w.(io.Reader)) }, false, 504, spentAs(prompt, 0, 1000), answer.SettledAsEstimated},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, c.answer)
			if c.refused {
				u.url.Host = "127.0.0.1:1" // nothing listens there
			}
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, plenty(), nil), nil, func(cfg *proxy.Config) { cfg.Timeouts.FirstByte = 50 * time.Millisecond })
			resp, body := g.post(t, chatBody)
			r := g.reports.next(t)
			if resp.StatusCode != c.status || r.Budget.Charged != c.want || r.Budget.By != c.by {
				t.Errorf("%d %s, %+v", resp.StatusCode, body, r.Budget)
			}
			if got := b.usage(t).Day.Spent; got != c.want {
				t.Errorf("spent %+v", got)
			}
		})
	}
}

// A client that leaves is charged the prompt and the text that had come until then. (C1, C2)
func TestBudgetClientLeaves(t *testing.T) {
	const event = "data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n"
	prompt := int64(wholeCost(t, streamBody))
	for _, events := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(events), func(t *testing.T) {
			gone := make(chan struct{})
			u := newUpstream(t, func(_ seen, w io.Writer) {
				if events > 0 {
					io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"+strings.Repeat(event, events))
				}
				_, _ = io.Copy(io.Discard, w.(io.Reader))
				close(gone)
			})
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, budget.Limits{budget.TokensPerDay: 1e9, budget.ParallelRequests: 1}, nil), nil)
			conn := g.dial(t)
			fmt.Fprint(conn, chatRequest(streamBody))
			u.next(t)
			if events > 0 {
				readUntil(t, conn, strings.Repeat(event, events)[len(event)*(events-1):])
			}
			conn.Close()
			wait(t, gone)
			r := g.reports.next(t)
			want := budget.Amount{Requests: 1, Tokens: prompt + 3*int64(events)}
			if r.Budget.Charged != want || r.Budget.By != answer.SettledAsCounted {
				t.Errorf("%+v, want %+v; %s", r.Budget, want, r.Client)
			}
			if got := b.usage(t).Day.Spent; got != want {
				t.Errorf("spent %+v, want %+v", got, want)
			}
		})
	}
}
