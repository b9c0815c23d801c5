package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A bodyLog is a BodyKeeper that records its calls.
type bodyLog struct {
	mu    sync.Mutex
	shown []string // "received" or "sent", the tenant, and the body
	said  []string // the request, the tenant, and the answer
}

func (l *bodyLog) add(what string, r *report.Report, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = append(l.shown, what+" by "+r.Tenant+": "+string(body))
}

func (l *bodyLog) Received(r *report.Report, body []byte) { l.add("received", r, body) }
func (l *bodyLog) Sent(r *report.Report, pieces [][]byte) { l.add("sent", r, bytes.Join(pieces, nil)) }

func (l *bodyLog) Answered(r *report.Report, a answer.Text) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf("%s by %s: %d %q %s %s", r.ID, r.Tenant, a.Bytes, a.Text, a.Finish, a.Unread))
}

// A BodyKeeper gets the body of each chat as received and each one that is sent upstream, and
// nothing of other requests. The report tells the mode of a chat.
func TestBodyKeeper(t *testing.T) {
	long := badRequest("Too long.")
	for name, c := range map[string]struct {
		request string
		errors  []string
		change  func(*tenant.Policy)
		sent    int
		mode    string
	}{
		"injected":    {request: chatRequest(chatBody), sent: 1, mode: "inject"},
		"compressed":  {request: chatRequest(gzipped(t, chatBody), "Content-Encoding: gzip"), sent: 1, mode: "inject"},
		"sent again":  {request: chatRequest(chatBody), errors: []string{long}, sent: 2, mode: "inject"},
		"turned off":  {request: chatRequest(chatBody, "Sidenote-Mode: off"), sent: 1, mode: "off"},
		"shadow":      {request: chatRequest(chatBody), change: func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow }, sent: 1, mode: "shadow"},
		"not JSON":    {request: chatRequest("no JSON"), sent: 1, mode: "inject"},
		"refused":     {request: chatRequest(`{"sidenote":{"nonsense":1},"messages":[]}`)},
		"not a chat":  {request: strings.Replace(chatRequest(chatBody), "chat/completions", "embeddings", 1), sent: -1},
		"not allowed": {request: chatRequest(chatBody, "Origin: https://elsewhere.test"), sent: -1},
	} {
		u, log := refusing(t, c.errors...), &bodyLog{}
		g := openIn(t, u, func(cfg *proxy.Config) {
			cfg.Bodies = log
			cfg.Tenants.Unknown = policyOf("acme", func(p *tenant.Policy) {
				p.RetryTooLong = true
				if c.change != nil {
					c.change(p)
				}
			})
		})
		if _, err := io.ReadAll(g.raw(t, c.request).Body); err != nil {
			t.Fatal(err)
		}
		rep := g.reports.next(t)
		want := []string{}
		if c.sent >= 0 {
			_, body, _ := strings.Cut(c.request, "\r\n\r\n")
			if name == "compressed" {
				body = chatBody
			}
			want = append(want, "received by acme: "+body)
		}
		for range c.sent {
			want = append(want, "sent by acme: "+u.next(t).body)
		}
		if fmt.Sprint(log.shown) != fmt.Sprint(want) || rep.Mode != c.mode {
			t.Errorf("%s: mode %q, shown %q, want %q", name, rep.Mode, log.shown, want)
		}
	}
}

type brokenKeeper struct{}

func (brokenKeeper) Received(*report.Report, []byte)      { panic("received") }
func (brokenKeeper) Sent(*report.Report, [][]byte)        { panic("sent") }
func (brokenKeeper) Answered(*report.Report, answer.Text) { panic("answered") }

// A BodyKeeper that panics does not affect the request.
func TestBodyKeeperPanics(t *testing.T) {
	u := newUpstream(t, answerJSON(`{"ok":true}`))
	g := openIn(t, u, func(cfg *proxy.Config) { cfg.Bodies = brokenKeeper{} })
	if resp, body := g.post(t, chatBody); resp.StatusCode != 200 || body != `{"ok":true}` {
		t.Errorf("%s: %s", resp.Status, body)
	}
	if r := g.reports.next(t); r.Outcome != rewrite.Injected {
		t.Errorf("%+v", r)
	}
	if n := strings.Count(g.log.take(), "BUG: panic"); n != 3 {
		t.Errorf("%d panics in the log", n)
	}
}

// Explanations contain no keys of headers and bodies, and no texts unless bodies are kept.
func TestExplanationsHoldNoKeys(t *testing.T) {
	const key = "sk-0123456789abcdef"
	body := strings.Replace(chatBody, "{", `{"api_key":"`+key+`",`, 1)
	for bodies, texts := range map[explain.Bodies]int{explain.BodiesOff: 0, explain.BodiesRedacted: 0, explain.BodiesFull: 2} {
		ring := explain.New(10, bodies)
		u := newUpstream(t, answerJSON(`{"ok":true}`))
		g := openIn(t, u, func(cfg *proxy.Config) {
			cfg.Bodies = ring
			cfg.Upstreams = map[string]proxy.Upstream{"stub": {BaseURL: u.url, APIKey: proxy.NewSecret(key)}}
		})
		resp, _ := g.post(t, body, "Authorization: Bearer "+key, "X-Api-Key: "+key)
		rep := g.reports.next(t)
		ring.Record(&rep)
		e, _, _ := ring.Find(resp.Header.Get(report.HeaderID))
		text, err := json.Marshal(e)
		if err != nil || e == nil || e.Outcome != rewrite.Injected || bytes.Contains(text, []byte("sk-")) {
			t.Errorf("%s: %s, %v", bodies, text, err)
		}
		if n := bytes.Count(text, []byte("How long")); n != texts {
			t.Errorf("%s: the question stands %d times in %s", bodies, n, text)
		}
		if n := bytes.Count(text, []byte("canary")); n != texts/2 {
			t.Errorf("%s: the source stands %d times in %s", bodies, n, text)
		}
	}
}
