package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Limits of requests apply to every request, also to those that cannot be read, on each route that
// a tenant with limits may use.
func TestBudgetOfRequestsAlone(t *testing.T) {
	for name, request := range map[string]string{
		"GET":              "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
		"chat":             chatRequest(chatBody),
		"chat, off":        chatRequest(chatBody, "Sidenote-Mode: off"),
		"chat, too large":  chatRequest(`{"messages":[` + strings.Repeat(" ", 2000) + `]}`),
		"chat, encoded":    chatRequest("?", "Content-Encoding: compress"),
		"chat, ambiguous":  chatRequest(`{"messages":[],"messages":[]}`),
		"chat, no JSON":    chatRequest(`{`),
		"embeddings":       strings.Replace(chatRequest(`{"input":"a"}`), "chat/completions", "embeddings", 1),
		"moderations":      strings.Replace(chatRequest(`{"input":"a"}`), "chat/completions", "moderations", 1),
		"chat, streamed":   chatRequest(streamBody),
		"shadow":           chatRequest(chatBody, "Sidenote-Mode: shadow"),
		"completions, odd": strings.Replace(chatRequest(`{`), "chat/completions", "completions", 1),
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answerJSON("{}"))
			b := newTill(t)
			limits := budget.Limits{budget.RequestsPerMinute: 2, budget.ParallelRequests: 1}
			g := openLimited(t, b, u, limited(t, limits, func(p *tenant.Policy) { p.MaxRewriteBytes = 1000 }), nil)
			for i, status := range []int{200, 200, 429} {
				resp := g.raw(t, request)
				_, _ = io.Copy(io.Discard, resp.Body)
				r := g.reports.next(t)
				want := budget.Amount{Requests: 1}
				if status == 429 {
					want = budget.Amount{}
				}
				if resp.StatusCode != status || r.Budget.Charged != want || r.Budget.Estimate != want {
					t.Errorf("request %d: %d, %+v", i+1, resp.StatusCode, r.Budget)
				}
			}
			if n, spent := len(u.seen), b.usage(t).Day.Spent; n != 2 || spent != (budget.Amount{Requests: 2}) {
				t.Errorf("%d went up, spent %+v", n, spent)
			}
		})
	}
}

// Requests on one connection are charged separately, even if the second one is refused.
func TestBudgetOnOneConnection(t *testing.T) {
	u := newUpstream(t, answerJSON(`{"usage":{"prompt_tokens":19,"completion_tokens":10}}`))
	b := newTill(t)
	g := openLimited(t, b, u, limited(t, budget.Limits{budget.RequestsPerMinute: 2, budget.TokensPerDay: 1e6}, nil), nil)
	c := g.dial(t)
	r := bufio.NewReader(c)
	for i, status := range []int{200, 200, 429} {
		if _, err := io.WriteString(c, chatRequest(chatBody)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != status || resp.Close {
			t.Errorf("request %d: %d, %v", i+1, resp.StatusCode, err)
		}
		g.reports.next(t)
	}
	if spent := b.usage(t).Day.Spent; spent != (budget.Amount{Requests: 2, Tokens: 58, Money: 78_000}) {
		t.Errorf("spent %+v", spent)
	}
}

// If a request is sent again with fewer sources, the second one is charged.
func TestBudgetOfWhatWasSentAgain(t *testing.T) {
	tooLong := badRequest("This model's maximum context length is 100000 tokens. However, your messages resulted in 100400 tokens.")
	u := refusing(t, tooLong)
	b := newTill(t)
	g := openLimited(t, b, u, limited(t, plenty(), func(p *tenant.Policy) {
		p.RetryTooLong, p.Rewrite.Knowledge = true, []string{"kb-acme"}
	}), retrieval.Func(fiveSources))
	g.post(t, chatBody)
	first, second := u.next(t).body, u.next(t).body
	r := g.reports.next(t)
	length := func(body string) int64 { return int64(wholeCost(t, body)) }
	if want := length(first) + 1000; r.Budget.Estimate.Tokens != want || length(second) >= length(first) {
		t.Errorf("reserved %+v, want %d tokens", r.Budget.Estimate, want)
	}
	want := budget.Amount{Requests: 1, Tokens: length(second), Injected: length(second) - length(chatBody), Money: length(second) * 1000}
	if r.Budget.Charged != want || r.Budget.By != answer.SettledAsCounted {
		t.Errorf("charged %+v, want %+v", r.Budget, want)
	}
}

// If a recorder panics, no reservation stays open.
func TestBudgetAndPanics(t *testing.T) {
	u := newUpstream(t, answerJSON(`{"usage":{"prompt_tokens":19,"completion_tokens":10}}`))
	b := newTill(t)
	recorded := make(chan struct{})
	s, err := proxy.New(proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: limited(t, plenty(), nil)},
		Timeouts:  proxy.DefaultTimeouts(), Budgets: b.meter,
	}, &rewrite.Rewriter{Models: testModels{}}, b.metrics, slog.New(slog.DiscardHandler), recorderFunc(func(*report.Report) {
		close(recorded)
		panic("injected")
	}))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, chatRequest(chatBody, "Connection: close"))
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("%s, %v", answer, err)
	}
	wait(t, recorded)
	if spent := b.usage(t).Day.Spent; spent != spentAs(19, 0, 10) {
		t.Errorf("spent %+v", spent)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

type recorderFunc func(*report.Report)

func (f recorderFunc) Record(r *report.Report) { f(r) }

// A client that leaves while the upstream is being dialed is charged nothing, as nothing was sent.
// (C1)
func TestBudgetOfClientThatLeavesTheDial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		if c, err := silent.Accept(); err == nil {
			dialed <- c // and never answers the handshake
		}
	}()
	b := newTill(t)
	g := openLimited(t, b, newUpstream(t, answerJSON(`{}`)), limited(t, plenty(), nil), nil, func(cfg *proxy.Config) {
		cfg.Upstreams["stub"] = proxy.Upstream{BaseURL: &url.URL{Scheme: "https", Host: silent.Addr().String(), Path: "/v1"}}
	})
	c := g.dial(t)
	if _, err := io.WriteString(c, chatRequest(chatBody)); err != nil {
		t.Fatal(err)
	}
	select {
	case upstream := <-dialed:
		defer upstream.Close()
	case <-time.After(patience):
		t.Fatal("nobody dialed")
	}
	c.Close()
	r := g.reports.next(t)
	if r.Budget.Charged != (budget.Amount{}) || r.Budget.By != answer.SettledAsNothing || r.Budget.Estimate.Tokens == 0 || r.Client != report.ClientGoneFirst {
		t.Errorf("%s, charged %+v", r.Client, r.Budget)
	}
}

// A fixed answer counts as a request, since it was searched for, and costs nothing else: it is
// sent if no tokens are left, and refused if no requests are.
func TestBudgetOfFixedAnswers(t *testing.T) {
	for name, limits := range map[string]budget.Limits{
		"everything limited": {budget.RequestsPerMinute: 2, budget.TokensPerDay: 1, budget.MoneyPerDay: 1},
		"requests limited":   {budget.RequestsPerMinute: 2},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answerJSON("{}"))
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, limits, func(p *tenant.Policy) {
				p.Rewrite.Knowledge, p.Rewrite.OnEmpty, p.Rewrite.EmptyAnswer = []string{"kb-acme"}, rewrite.EmptyRefuse, "Nothing is known of that."
			}), retrieval.Func(nothing))
			for i, status := range []int{200, 200, 429} {
				resp := g.raw(t, chatRequest(`{"model":"m","messages":[{"role":"user","content":"How much leave is there?"}]}`))
				body, _ := io.ReadAll(resp.Body)
				r := g.reports.next(t)
				if resp.StatusCode != status || (status == 200) != strings.Contains(string(body), "Nothing is known") || r.Budget.Charged.Tokens != 0 {
					t.Errorf("request %d: %d, %s, charged %+v", i+1, resp.StatusCode, body, r.Budget)
				}
			}
			if n, spent := len(u.seen), b.usage(t).Day.Spent; n != 0 || spent != (budget.Amount{Requests: 2}) {
				t.Errorf("%d went up, spent %+v", n, spent)
			}
		})
	}
}
