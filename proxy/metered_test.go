package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// A metered request is sent with an output cap, on every listed route, and refused if two servers
// could read its limits differently. Nothing else in it changes. Requests that are not metered are
// unchanged. (C18)
func TestMeteredRequests(t *testing.T) {
	const input = `"input":"a","seed": 1.0}`
	for name, c := range map[string]struct {
		path, body string
		want       string // "": refused
	}{
		"chat":             {"/v1/chat/completions", chatBody, `{"max_tokens":1000,` + chatBody[1:]},
		"chat, its own":    {"/v1/chat/completions", `{"max_tokens":7,` + chatBody[1:], `{"max_tokens":7,` + chatBody[1:]},
		"chat, too long":   {"/v1/chat/completions", `{"max_tokens": 7000 ,` + chatBody[1:], `{"max_tokens": 1000 ,` + chatBody[1:]},
		"chat, n":          {"/v1/chat/completions", `{"n":129,` + chatBody[1:], ""},
		"chat, twice":      {"/v1/chat/completions", `{"max_tokens":7,"max_tokens":8,` + chatBody[1:], ""},
		"chat, no JSON":    {"/v1/chat/completions", `{"messages":[`, ""},
		"completions":      {"/v1/completions", `{` + input, `{"max_tokens":16,` + input},
		"responses":        {"/v1/responses", `{` + input, `{"max_output_tokens":1000,` + input},
		"responses, short": {"/v1/responses", `{"max_output_tokens":-1,` + input, ""},
		"embeddings":       {"/v1/embeddings", `{` + input, `{` + input},
		"moderations":      {"/v1/moderations", `{` + input, `{` + input},
	} {
		t.Run(name, func(t *testing.T) {
			for _, metered := range []bool{true, false} {
				u := newUpstream(t, answerJSON("{}"))
				g := open(t, u, func(p *tenant.Policy) {
					p.Metered, p.OutputCap, p.Rewrite.Knowledge = metered, 1000, nil
				})
				resp := g.raw(t, strings.Replace(chatRequest(c.body), "/v1/chat/completions", c.path, 1))
				answer, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if metered && c.want == "" {
					if resp.StatusCode != 400 || len(u.seen) > 0 {
						t.Errorf("%d %s, %d requests went up", resp.StatusCode, answer, len(u.seen))
					}
					continue
				}
				want := c.body
				if metered {
					want = c.want
				}
				if r := g.reports.next(t); metered && strings.Contains(want, "1000") && (len(r.Rewrite.Ledger.Edits) != 1 || r.Rewrite.Ledger.Edits[0].Name != "max-tokens") {
					t.Errorf("%+v in the ledger", r.Rewrite.Ledger.Edits)
				}
				if got := u.next(t).body; got != want || resp.StatusCode != 200 {
					t.Errorf("metered %t: %d, went up %s, want %s", metered, resp.StatusCode, got, want)
				}
			}
		})
	}
}

// A compressed metered request is sent as received if nothing in it changes, and uncompressed
// otherwise.
func TestMeteredCompressed(t *testing.T) {
	for body, want := range map[string]string{`{"max_tokens":7,"prompt":"a"}`: "", `{"prompt":"a"}`: `{"max_tokens":16,"prompt":"a"}`} {
		u := newUpstream(t, answerJSON("{}"))
		g := open(t, u, func(p *tenant.Policy) { p.Metered = true })
		packed := gzipped(t, body)
		g.raw(t, strings.Replace(chatRequest(packed, "Content-Encoding: gzip"), "/v1/chat/completions", "/v1/completions", 1))
		encoding := ""
		if want == "" {
			want, encoding = packed, "gzip"
		}
		if s := u.next(t); s.body != want || s.header("Content-Encoding") != encoding {
			t.Errorf("%s: went up %q as %q", body, s.body, s.header("Content-Encoding"))
		}
	}
}

// A metered stream reports its usage, which the client does not see unless it asked for it. A
// stream that is not metered, or whose upstream refuses the option, is unchanged.
func TestMeteredStreams(t *testing.T) {
	const (
		asked = `data: {"choices":[{"delta":{"content":"Hi"}}],"usage":null}` + "\n\n" +
			`data: {"choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10}}` + "\n\ndata: [DONE]\n\n"
		unasked = `data: {"choices":[{"delta":{"content":"Hi"}}]}` + "\n\ndata: [DONE]\n\n"
		option  = `"stream_options":{"include_usage":true},`
	)
	for name, c := range map[string]struct {
		metered, noUsage bool
		request          string // its options
		up, answer       string // the options sent upstream, and what the client gets
		encoding         string // that Sidenote asks the upstream for
		output           int64
	}{
		"not metered":     {false, false, "", "", unasked, "gzip", 0},
		"metered":         {true, false, "", option, unasked, "identity", 10},
		"wants none":      {true, false, `"stream_options":{"include_usage":false},`, option, unasked, "identity", 10},
		"wants it":        {true, false, option, option, asked, "gzip", 10},
		"option refused":  {true, true, "", "", unasked, "gzip", 0},
		"not metered, it": {false, false, option, option, asked, "gzip", 10},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
			t.Run(name+path, func(t *testing.T) {
				u := newUpstream(t, func(s seen, w io.Writer) {
					body := unasked
					if strings.Contains(s.body, `"include_usage":true`) {
						body = asked
					}
					fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				})
				cfg := proxy.Config{
					Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url, NoUsageOption: c.noUsage}},
					Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.Metered, p.Rewrite.Knowledge = c.metered, nil })},
				}
				g := start(t, cfg, nil)
				rest := `"max_tokens":9,"stream":true,` + chatBody[1:]
				resp := g.raw(t, strings.Replace(chatRequest("{"+c.request+rest, "Accept-Encoding: gzip"), "/v1/chat/completions", path, 1))
				if got, err := io.ReadAll(resp.Body); err != nil || string(got) != c.answer {
					t.Errorf("the client got %q, %v", got, err)
				}
				if s := u.next(t); s.body != "{"+c.up+rest || s.header("Accept-Encoding") != c.encoding {
					t.Errorf("went up %s, accepting %s", s.body, s.header("Accept-Encoding"))
				}
				if r := g.reports.next(t); r.Usage.Output != c.output {
					t.Errorf("read %+v, %s", r.Usage, r.UsageFound)
				}
			})
		}
	}
}

// The text of a metered answer without usage is counted, complete or cut, compressed or not, and
// even while others are being counted. (C2, U5, U6, U11)
func TestMeteredTextIsCounted(t *testing.T) {
	const (
		event = "data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n"
		sse   = "200 OK\r\nContent-Type: text/event-stream"
	)
	for name, c := range map[string]struct {
		head, answer string
		length       int // announced length; 0: that of answer
		want         answer.CountedUsage
	}{
		"stream":           {sse, event + event + "data: [DONE]\n\n", 0, answer.CountedUsage{Output: 6, Exact: true, Known: true}},
		"cut (U5)":         {sse, event + event + "data: {\"choi", 1000, answer.CountedUsage{Output: 6, Exact: true, Known: true}},
		"error (U11)":      {sse, event + "data: {\"error\":{}}\n\n", 0, answer.CountedUsage{Output: 3, Exact: true, Known: true}},
		"lie (U14)":        {okJSON, `{"choices":[{"message":{"content":"abcd"}}],"usage":{"prompt_tokens":-1,"completion_tokens":1}}`, 0, answer.CountedUsage{Output: 4, Exact: true, Known: true}},
		"told":             {okJSON, `{"choices":[{"message":{"content":"abcd"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, 0, answer.CountedUsage{}},
		"gzip":             {okJSON + "\r\nContent-Encoding: gzip", gzipped(t, `{"choices":[{"message":{"content":"abcd"}}]}`), 0, answer.CountedUsage{Output: 4, Exact: true, Known: true}},
		"unknown coding":   {okJSON + "\r\nContent-Encoding: compress", "?", 0, answer.CountedUsage{}},
		"refused upstream": {"429 Slow down\r\nContent-Type: application/json", `{}`, 0, answer.CountedUsage{}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(_ seen, w io.Writer) {
				fmt.Fprintf(w, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", c.head, max(c.length, len(c.answer)), c.answer)
				_ = w.(io.Closer).Close()
			})
			g := open(t, u, func(p *tenant.Policy) { p.Metered = true })
			for _, busy := range []bool{false, true} {
				free := func() {}
				if busy {
					free = proxy.OccupyDecoders(g.server)
				}
				resp := g.raw(t, chatRequest(strings.Replace(chatBody, "{", `{"stream":true,`, 1)))
				_, _ = io.Copy(io.Discard, resp.Body) // some answers are cut
				if r := g.reports.next(t); r.Generated != c.want {
					t.Errorf("busy %t: counted %+v, %s", busy, r.Generated, r.UsageFound)
				}
				free()
			}
			if n := reporttest.Count(t, g.metrics, "sidenote_shed_total", "usage"); n != 0 {
				t.Errorf("%v were shed", n)
			}
		})
	}
}

// A client that leaves during a stream is charged what had come until then. (C2)
func TestMeteredClientLeaves(t *testing.T) {
	u, events, _, gone := streamer(t)
	g := open(t, u, func(p *tenant.Policy) { p.Metered = true })
	_, r, c := g.stream(t)
	const event = "data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n"
	events <- event
	if _, err := io.CopyN(io.Discard, r, int64(len(event))); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-gone
	if r := g.reports.next(t); r.Generated != (answer.CountedUsage{Output: 3, Exact: true, Known: true}) || r.Client != report.ClientGoneStreaming {
		t.Errorf("counted %+v, %s", r.Generated, r.Client)
	}
}

// smallModel is a model whose window is no larger than its longest answer, as that of gpt-4.
type smallModel struct{ testModels }

func (m smallModel) Model(name string) model.Model {
	of := m.testModels.Model(name)
	of.Window, of.MaxOutput = 8192, 8192
	return of
}

// The limit that Sidenote gives an answer fits into the window together with the prompt, with
// sources, without, and on other routes, since an upstream refuses anything else. The request's
// own limit is unchanged.
func TestMeteredLimitFitsWindow(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		limits     budget.Limits
		knowledge  []string
		want       int // at most this, and at least half of it
	}{
		"chat":         {"/v1/chat/completions", chatBody, plenty(), []string{"kb-acme"}, 8192},
		"no sources":   {"/v1/chat/completions", chatBody, plenty(), nil, 8192},
		"money":        {"/v1/chat/completions", chatBody, only(budget.MoneyPerDay, budget.USD), nil, 8192},
		"responses":    {"/v1/responses", `{"model":"m","input":"a"}`, plenty(), nil, 8192},
		"small limits": {"/v1/chat/completions", chatBody, only(budget.TokensPerDay, 4000), nil, 1000 + len(chatBody) + 16},
		"its own":      {"/v1/chat/completions", `{"max_tokens":8192,` + chatBody[1:], plenty(), nil, 8192 + len(chatBody) + 16},
	} {
		t.Run(name, func(t *testing.T) {
			u, b := newUpstream(t, answerJSON("{}")), newTill(t)
			p := limited(t, c.limits, func(p *tenant.Policy) { p.OutputCap, p.Rewrite.Knowledge = 0, c.knowledge })
			cfg := proxy.Config{
				Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
				Tenants:   tenant.Tenants{Unknown: p},
				Budgets:   b.meter,
			}
			g := startWith(t, cfg, &rewrite.Rewriter{Retriever: retrieval.Func(fromBases), Models: smallModel{}})
			g.raw(t, strings.Replace(chatRequest(c.body), "/v1/chat/completions", c.path, 1))
			var up struct {
				MaxTokens       int `json:"max_tokens"`
				MaxOutputTokens int `json:"max_output_tokens"`
			}
			body := u.next(t).body
			if err := json.Unmarshal([]byte(body), &up); err != nil {
				t.Fatal(err)
			}
			r := g.reports.next(t)
			limit := up.MaxTokens + up.MaxOutputTokens
			prompt := int(r.Budget.Estimate.Tokens) - limit
			if whole := limit + prompt; prompt <= 0 || whole > c.want || whole < c.want/2 {
				t.Errorf("%d tokens of prompt and %d of answer, want %d at most:\n%s", prompt, limit, c.want, body)
			}
		})
	}
}
