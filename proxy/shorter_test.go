package proxy_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// refusing is an upstream that answers the first requests with these errors, and later ones
// without an error.
func refusing(t *testing.T, errors ...string) *stubUpstream {
	t.Helper()
	left := errors
	return newUpstream(t, func(_ seen, w io.Writer) {
		head, body := okJSON, `{"ok":true}`
		if len(left) > 0 {
			head, body, _ = strings.Cut(left[0], "\r\n\r\n")
			left = left[1:]
		}
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	})
}

func badRequest(message string) string {
	return "400 Bad Request\r\nContent-Type: application/json\r\n\r\n" +
		`{"error":{"message":"` + message + `","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`
}

// fiveSources finds five sources of 300 bytes.
func fiveSources(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	res := retrieval.Result{Bases: q.Bases}
	for i := range 5 {
		res.Sources = append(res.Sources, retrieval.Source{
			Type: "rag", Knowledge: q.Bases[0].Knowledge, Doc: fmt.Sprint(i), Text: strings.Repeat(fmt.Sprintf("fact %d. ", i), 36), Score: 5,
		})
	}
	return res, nil
}

// A request that is too long for the upstream because of the sources is sent once more with those
// that fit.
func TestTooLongIsSentAgain(t *testing.T) {
	const first = `{"ok":true}`
	over := func(by int) string {
		return badRequest(fmt.Sprintf("This model's maximum context length is 100000 tokens. However, your messages resulted in %d tokens.", 100_000+by))
	}
	for name, c := range map[string]struct {
		errors  []string
		change  func(*tenant.Policy)
		sent    int    // number of requests that the upstream gets
		sources int    // number of sources in the last one
		answer  string // the client's, if not the second answer
	}{
		"by its numbers":     {errors: []string{over(400)}, sent: 2, sources: 3},
		"by a lot":           {errors: []string{over(2000)}, sent: 2, sources: 0},
		"not for us":         {errors: []string{over(9000)}, sent: 1, sources: 5, answer: over(9000)},
		"without numbers":    {errors: []string{badRequest("Too long.")}, sent: 2, sources: 0},
		"again":              {errors: []string{over(400), over(50)}, sent: 2, sources: 3, answer: over(50)},
		"another error":      {errors: []string{over(400), "429 Slow\r\nRetry-After: 7\r\n\r\n{}"}, sent: 2, sources: 3, answer: "429 Slow\r\nRetry-After: 7\r\n\r\n{}"},
		"compressed":         {errors: []string{"400 No\r\nContent-Encoding: gzip\r\n\r\n" + gzipped(t, strings.SplitN(over(400), "\r\n\r\n", 2)[1])}, sent: 2, sources: 3},
		"not too long":       {errors: []string{"400 No\r\n\r\nbad temperature"}, sent: 1, sources: 5, answer: "400 No\r\n\r\nbad temperature"},
		"not in this policy": {errors: []string{over(400)}, change: func(p *tenant.Policy) { p.RetryTooLong = false }, sent: 1, sources: 5, answer: over(400)},
		"not ours":           {errors: []string{over(400)}, change: func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off }, sent: 1, answer: over(400)},
	} {
		t.Run(name, func(t *testing.T) {
			u := refusing(t, c.errors...)
			g := start(t, proxy.Config{
				Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
				Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
					p.RetryTooLong = true
					if c.change != nil {
						c.change(p)
					}
				})},
			}, retrieval.Func(fiveSources))
			resp, body := g.post(t, chatBody)
			want := "200 OK\r\n\r\n" + first
			if c.answer != "" {
				want = c.answer
			}
			head, text, _ := strings.Cut(want, "\r\n\r\n")
			status, _, _ := strings.Cut(head, "\r\n")
			if resp.Status != status || body != text {
				t.Errorf("the client got %s %q, want %s %q", resp.Status, body, status, text)
			}
			if strings.Contains(head, "Retry-After") && resp.Header.Get("Retry-After") != "7" {
				t.Errorf("head %v", resp.Header)
			}
			if len(u.seen) != c.sent {
				t.Fatalf("%d requests were sent, want %d", len(u.seen), c.sent)
			}
			var last seen
			for range c.sent {
				last = <-u.seen
			}
			if got := strings.Count(last.body, "<source id="); got != c.sources {
				t.Errorf("%d sources in %s", got, last.body)
			}
			if c.sources == 0 && last.body != chatBody {
				t.Errorf("the upstream got %s", last.body)
			}
			r, header := g.reports.next(t), resp.Header.Get(report.HeaderStatus)
			retried := c.sent == 2
			if says := retried && c.answer == ""; r.Retried() != retried || strings.Contains(header, "; retry=context-length") != says || retried && r.Sources() != c.sources {
				t.Errorf("retried %v, %d sources, status %s", r.Retried(), r.Sources(), header)
			}
			if c.sent == 2 && c.sources == 0 && !strings.HasPrefix(header, "untouched; reason=window; retry") {
				t.Errorf("status %s", header)
			}
		})
	}
}

// If an upstream reports only its limit, the whole request is counted and fitted to that.
func TestTooLongByItsLimit(t *testing.T) {
	u := refusing(t, `400 Bad Request`+"\r\n\r\n"+`{"error":{"message":"The input token count exceeds the maximum number of tokens allowed (2400).","code":400,"status":"INVALID_ARGUMENT"}}`)
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
		Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			p.RetryTooLong, p.Rewrite.ReserveOutputTokens, p.Rewrite.MinTruncatedTokens = true, 100, 10
		})},
	}, retrieval.Func(fiveSources))
	resp, _ := g.post(t, chatBody)
	<-u.seen
	second := <-u.seen
	if n := len(second.body); resp.StatusCode != 200 || n > 2400 || !strings.Contains(second.body, "<source id=") {
		t.Errorf("%d, then %d bytes: %s", resp.StatusCode, n, second.body)
	}
	if w := g.reports.next(t).Rewrite.Ledger.Window; w.Size != 2400 || w.Check != model.CheckCount {
		t.Errorf("%+v", w)
	}
}

// An answer with a status that no upstream uses for this error is relayed at once.
func TestOtherErrorsFlow(t *testing.T) {
	more := make(chan struct{})
	u := newUpstream(t, func(_ seen, w io.Writer) {
		io.WriteString(w, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nab")
		select {
		case <-more:
		case <-t.Context().Done():
		}
		io.WriteString(w, "cd")
	})
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.RetryTooLong = true })},
	}, retrieval.Func(fiveSources))
	resp := g.raw(t, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody))
	close(more)
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != 503 || string(body) != "abcd" || err != nil {
		t.Errorf("%d %q, %v", resp.StatusCode, body, err)
	}
}

// For a request that was sent again, the token count is learnt from the second request, not from
// the refused one.
func TestLearnsFromWhatWasSentAgain(t *testing.T) {
	const posts, hidden = 20, 100
	for name, over := range map[string]int{"fewer sources": 400, "none": 2000} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			u := newUpstream(t, func(s seen, w io.Writer) {
				head, body, _ := strings.Cut(badRequest(fmt.Sprintf("This model's maximum context length is 100000 tokens. However, your messages resulted in %d tokens.", 100_000+over)), "\r\n\r\n")
				if asked.Add(1)%2 == 0 {
					head, body = okJSON, fmt.Sprintf(`{"usage":{"prompt_tokens":%d}}`, wholeCost(t, s.body)+hidden)
				}
				fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
			})
			g := start(t, proxy.Config{
				Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
				Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.RetryTooLong = true })},
			}, retrieval.Func(fiveSources))
			for range posts {
				g.post(t, chatBody, "Connection: close")
				g.reports.next(t)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := g.server.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			shed := int(reporttest.Count(t, g.metrics, "sidenote_shed_total", "calibration"))
			all := g.calibration.All()
			if log := g.log.take(); len(all) != 1 || all[0].Samples+shed != posts || all[0].Value.Offset != hidden {
				t.Errorf("%d shed, learnt %+v; %.500s", shed, all, log)
			}
		})
	}
}

// wholeCost returns the number of tokens of a request as it was sent.
func wholeCost(t *testing.T, body string) int { return costOf(t, chat.Completions, body) }

func costOf(t *testing.T, api chat.API, body string) int {
	req, err := api.Parse([]byte(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	rw := &rewrite.Rewriter{Models: testModels{}}
	var res rewrite.Result
	rw.Rewrite(context.Background(), &rewrite.Policy{CountWhole: true}, req, &rewrite.Options{}, &res)
	c := res.Ledger.Window.Cost
	return c.Messages + c.Tools + c.Format
}
