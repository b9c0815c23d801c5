package proxy_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// The BodyKeeper gets the text of the answer to a chat, and the client gets the answer byte for
// byte. All memory is released.
func TestBodyKeeperHearsAnswers(t *testing.T) {
	const (
		whole  = `{"choices": [{"index":0,"message":{"content":"16 weeks [1]."},"finish_reason":"stop"}], "x": 1.0}`
		stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"16 \"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"weeks\"}}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	)
	packed := gzipped(t, whole)
	for name, c := range map[string]struct {
		head, body, request string
		change              func(*tenant.Policy)
		want                string
	}{
		"whole":           {head: "200 OK\r\nContent-Type: application/json", body: whole, want: `13 "16 weeks [1]." stop `},
		"stream":          {head: "200 OK\r\nContent-Type: text/event-stream", body: stream, want: `8 "16 weeks" stop `},
		"cut in an event": {head: "200 OK\r\nContent-Type: text/event-stream", body: stream[:50], want: `0 ""  `},
		"no empty line":   {head: "200 OK\r\nContent-Type: text/event-stream", body: strings.TrimSpace(stream[:strings.Index(stream, "\n")]), want: `3 "16 "  `},
		"compressed":      {head: "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip", body: packed, want: `0 ""  compressed`},
		"no chat":         {head: "200 OK\r\nContent-Type: application/json", body: "[]", want: `0 ""  malformed`},
		"off":             {head: "200 OK\r\nContent-Type: application/json", body: whole, request: chatRequest(chatBody, "Sidenote-Mode: off"), want: `13 "16 weeks [1]." stop `},
		"refused":         {head: "429 Too Many Requests\r\nContent-Type: application/json", body: whole},
		"another route":   {head: "200 OK\r\nContent-Type: application/json", body: whole, request: strings.Replace(chatRequest(chatBody), "chat/completions", "completions", 1)},
		"shadow": {
			head: "200 OK\r\nContent-Type: application/json", body: whole, want: `13 "16 weeks [1]." stop `,
			change: func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow },
		},
	} {
		u, log := newUpstream(t, answering(c.head, c.body)), &bodyLog{}
		g := openIn(t, u, func(cfg *proxy.Config) {
			cfg.Bodies = log
			cfg.Tenants.Unknown = policyOf("acme", c.change)
		})
		if c.request == "" {
			c.request = chatRequest(chatBody)
		}
		got, err := io.ReadAll(g.raw(t, c.request).Body)
		if err != nil || string(got) != c.body {
			t.Errorf("%s: relayed %q, %v", name, got, err)
		}
		rep := g.reports.next(t)
		want := []string{}
		if c.want != "" {
			want = append(want, rep.ID+" by acme: "+c.want)
		}
		if fmt.Sprint(log.said) != fmt.Sprint(want) {
			t.Errorf("%s: said %q, want %q", name, log.said, want)
		}
		g.freesBodies(t)
	}
}

// freesBodies waits until no memory is held for bodies; a request may be reported just before.
func (g *rig) freesBodies(t *testing.T) {
	t.Helper()
	for begin := time.Now(); proxy.Held(g.server)["bytes of bodies"] != 0; runtime.Gosched() {
		if time.Since(begin) > patience {
			t.Fatalf("%d bytes are held", proxy.Held(g.server)["bytes of bodies"])
		}
	}
}

// A fixed answer is recorded, too.
func TestBodyKeeperHearsFixedAnswers(t *testing.T) {
	u, log := newUpstream(t, answerJSON(`{}`)), &bodyLog{}
	g := start(t, proxy.Config{
		Bodies:    log,
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			p.Rewrite.OnEmpty, p.Rewrite.EmptyAnswer = rewrite.EmptyRefuse, "Nobody knows."
		})},
	}, retrieval.Func(nothing))
	if _, body := g.post(t, chatBody); !strings.Contains(body, "Nobody knows.") {
		t.Fatal(body)
	}
	if r := g.reports.next(t); r.Outcome != rewrite.Answered || fmt.Sprint(log.said) != "["+r.ID+` by acme: 13 "Nobody knows." stop ]` {
		t.Errorf("%s: %q", r.Outcome, log.said)
	}
}

// If there are several rounds, the answer is the text of the last one.
func TestBodyKeeperHearsTheLastRound(t *testing.T) {
	for _, body := range []string{weeksBody, weeksStream} {
		u := newUpstream(t, func(s seen, w io.Writer) {
			a := answertest.Answer{Text: "16 weeks", Finish: "stop"}
			if !strings.Contains(s.body, `"role":"tool"`) {
				a = answertest.Answer{Text: "I look.", Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"parental leave"}`}}}
			}
			body, kind := answertest.Bytes(a, plain(), strings.Contains(s.body, `"stream":true`))
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)
		})
		log, cfg := &bodyLog{}, withTools(t, strings.TrimSuffix(u.url.String(), "/v1"), nil)
		cfg.Bodies = log
		g := start(t, cfg, nil)
		g.post(t, body)
		if r := g.reports.next(t); r.Outcome != report.WithTools || len(log.said) != 1 || !strings.Contains(log.said[0], ` "16 weeks" stop `) {
			t.Errorf("%s: %q", r.Outcome, log.said)
		}
		g.freesBodies(t)
	}
}

// Without a BodyKeeper an answer's text is not read, which costs a request no allocation.
func BenchmarkServeAnswers(b *testing.B) {
	for name, bodies := range map[string]proxy.BodyKeeper{"off": nil, "kept": noKeeper{}} {
		b.Run(name, func(b *testing.B) {
			serveBench(b, benchServerTo(b, `{"choices":[{"index":0,"message":{"content":"16 weeks [1]."},"finish_reason":"stop"}]}`, func(cfg *proxy.Config) { cfg.Bodies = bodies }), "/v1/chat/completions")
		})
	}
}

// A noKeeper records nothing.
type noKeeper struct{}

func (noKeeper) Received(*report.Report, []byte)      {}
func (noKeeper) Sent(*report.Report, [][]byte)        {}
func (noKeeper) Answered(*report.Report, answer.Text) {}
