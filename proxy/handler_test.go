package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

const chatBody = `{ "model":"m", "x": 12345678901234567890, "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"How long is parental leave?"}]}`

// Requests that Sidenote does not rewrite, and their answers, are relayed unchanged.
func TestRelaysEverything(t *testing.T) {
	const answer = "{\"a\" :  1.0}\n"
	u := newUpstream(t, answerJSON(answer))
	g := open(t, u, nil)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "HEAD"} {
		for _, target := range []string{"/v1/files", "/files/a%2Fb/../c//d;x?q=%41&q=&=%zz", "/v1/models?x", "/metrics", "/v1/rewrite"} {
			body := "\x00\xffbody of " + method
			resp := g.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: client\r\nX-Odd-cAse:  v1\r\nx-odd-case: v2\r\nAuthorization: Bearer sk-1\r\nSidenote-Mode: off\r\nSidenote-Junk: x\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body))
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := <-u.seen
			path := target
			if !strings.HasPrefix(path, "/v1") {
				path = "/v1" + path
			}
			if want := method + " " + path + " HTTP/1.1"; got.line != want {
				t.Errorf("got  %s\nwant %s", got.line, want)
			}
			var kept []string
			for _, l := range got.head {
				if !strings.HasPrefix(l, "Host:") && !strings.HasPrefix(l, "Content-Length:") {
					kept = append(kept, l)
				}
			}
			if diff := cmp.Diff([]string{"X-Odd-cAse:  v1", "x-odd-case: v2", "Authorization: Bearer sk-1"}, kept); diff != "" {
				t.Errorf("%s %s head (-want +got):\n%s", method, target, diff)
			}
			if got.body != body {
				t.Errorf("%s %s: body %q", method, target, got.body)
			}
			if method != "HEAD" && string(b) != answer {
				t.Errorf("%s %s: answer %q", method, target, b)
			}
			for _, name := range []string{report.HeaderID, report.HeaderStatus, report.HeaderSources} {
				if v := resp.Header.Values(name); len(v) > 0 {
					t.Errorf("%s %s: a relayed answer has %s: %q", method, target, name, v)
				}
			}
			if r := g.reports.next(t); r.Outcome != report.Relayed || r.Status != 200 {
				t.Errorf("%s %s: report %s, %d", method, target, r.Outcome, r.Status)
			}
		}
	}
}

// The status of generation routes that are not rewritten says so.
func TestGenerationRoutesPass(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	for _, path := range []string{"/v1/completions"} {
		resp := g.raw(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		if got := resp.Header.Values(report.HeaderStatus); len(got) != 1 || got[0] != "untouched; reason=route" {
			t.Errorf("%s: %q", path, got)
		}
		if s := <-u.seen; s.body != "{}" {
			t.Errorf("%s: body %q", path, s.body)
		}
	}
}

func TestInjects(t *testing.T) {
	u := newUpstream(t, answerJSON(`{"ok":true}`))
	g := open(t, u, nil)
	resp, body := g.post(t, chatBody)
	if body != `{"ok":true}` || resp.Header.Get("X-Request-Id") != "req_1" {
		t.Errorf("answer %q, %v", body, resp.Header)
	}
	s := <-u.seen
	before, rest, ok := strings.Cut(s.body, `Be brief.`)
	_, after, found := strings.Cut(rest, `</sources>\n`)
	if !ok || !found || before+`Be brief.`+after != chatBody || !strings.Contains(rest, "canary of acme in kb-acme") {
		t.Errorf("the upstream got %s", s.body)
	}
	status := resp.Header.Values(report.HeaderStatus)
	if len(status) != 1 || !strings.HasPrefix(status[0], "injected; sources=1; tokens=") {
		t.Errorf("status %q", status)
	}
	if got, want := resp.Header.Get(report.HeaderSources), `"1";kb="kb-acme";doc="kb-acme.md";name=%"%c3%9cber kb-acme"`; got != want {
		t.Errorf("sources %s, want %s", got, want)
	}
	r := g.reports.next(t)
	if r.ID != resp.Header.Get(report.HeaderID) || len(r.ID) != 26 || r.Outcome != rewrite.Injected || r.Status != 200 ||
		r.Client != report.ClientCompleted || r.Overhead <= 0 || r.TTFB < r.Overhead || r.Total < r.TTFB || r.Model() != "test" {
		t.Errorf("report %+v", r)
	}
}

// Requests and bodies that are not rewritten, and the responses of strict policies to them.
func TestWhatIsLeftAlone(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	lenient := open(t, u, func(p *tenant.Policy) { p.MaxRewriteBytes = 300 })
	strict := open(t, u, func(p *tenant.Policy) { p.MaxRewriteBytes, p.Rewrite.RefuseOnFailure = 300, true })
	filtered := open(t, u, func(p *tenant.Policy) {
		p.MaxRewriteBytes, p.Rewrite.Filter = 300, &filter.Filter{Type: filter.Eq, Key: "audience", Value: "public"}
	})
	f := func(body, reason string, code int, lines ...string) {
		t.Helper()
		resp, _ := lenient.post(t, body, lines...)
		if got := resp.Header.Get(report.HeaderStatus); got != "untouched; reason="+reason || resp.StatusCode != 200 {
			t.Errorf("%.40s: %d, %s", body, resp.StatusCode, got)
		}
		if s := <-u.seen; s.body != body {
			t.Errorf("%.40s reached the upstream as %.80q", body, s.body)
		}
		for name, g := range map[string]*rig{"strict": strict, "filtered": filtered} {
			resp, text := g.post(t, body, lines...)
			if got := resp.Header.Get(report.HeaderStatus); got != "refused; reason="+reason || resp.StatusCode != code || !strings.Contains(text, `"error":{`) {
				t.Errorf("%s, %.40s: %d, %s, %s", name, body, resp.StatusCode, got, text)
			}
		}
		select {
		case s := <-u.seen:
			t.Errorf("strict, %.40s: reached the upstream as %.80q", body, s.body)
		default:
		}
	}
	f("not json", "not-json", 400)
	f("", "not-json", 400)
	f(`{"model":"m"}`, "not-chat", 400)
	f(`{"messages":[],"messages":[]}`, "ambiguous-body", 400)
	f(strings.Repeat("[", 100), "too-deep", 400)
	f(`{"messages":[{"role":"user","content":"`+strings.Repeat("x", 100_000)+`"}]}`, "body-too-large", 413)
	f("\x28\xb5\x2f\xfd", "encoded-body", 400, "Content-Encoding: zstd")
}

// Objects that are reused for another request show nothing of the previous one.
func TestRequestsShareNothing(t *testing.T) {
	u := newUpstream(t, answerJSON(`{"ok":true}`))
	g := open(t, u, nil)
	ids := map[string]bool{}
	for range 20 {
		g.post(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"What?"}]}`)
		if r := g.reports.next(t); r.Outcome != rewrite.Injected || !r.Stream || r.Sources() != 1 {
			t.Fatalf("a chat: %+v", r)
		}
		resp := g.raw(t, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		r := g.reports.next(t)
		if r.Status != 200 || r.Overhead == 0 || r.Total < r.TTFB || ids[r.ID] {
			t.Errorf("a list of models: %+v", r)
		}
		ids[r.ID] = true
		want := report.Report{
			ID: r.ID, Time: r.Time, Tenant: "acme", By: report.ByUnknown, Address: netip.MustParseAddr("127.0.0.1"), Policy: "base", PolicyHash: "00000001", Upstream: "stub", Expose: report.ExposeNames,
			Route: route.Models, Status: 200, Outcome: report.Relayed, Client: report.ClientCompleted,
			Calls:    []report.Call{{Upstream: "stub", Purpose: report.ToAnswer, Status: 200, Began: r.Calls[0].Began, Took: r.Calls[0].Took, RequestID: "req_1"}},
			Overhead: r.Overhead, TTFB: r.TTFB, Total: r.Total,
		}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("a list of models after a chat:\ngot  %+v\nwant %+v", r, want)
		}
		for _, name := range []string{report.HeaderID, report.HeaderStatus, report.HeaderSources} {
			if v := resp.Header.Get(name); v != "" {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
}

func TestModes(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	withField := strings.Replace(chatBody, `"model"`, `"sidenote":{"mode":"off"}, "model"`, 1)

	resp, _ := g.post(t, withField)
	if s := <-u.seen; s.body != chatBody || resp.Header.Get(report.HeaderStatus) != "untouched; reason=off" {
		t.Errorf("off by the body: %s, upstream got %s", resp.Header.Get(report.HeaderStatus), s.body)
	}
	g.reports.next(t)

	resp, _ = g.post(t, chatBody, "Sidenote-Mode: shadow")
	if s := <-u.seen; s.body != chatBody || resp.Header.Get(report.HeaderStatus) != "shadow" || resp.Header.Get(report.HeaderSources) != "" || s.header("sidenote-mode") != "" {
		t.Errorf("shadow: %v, upstream got %s", resp.Header, s.body)
	}
	if r := g.reports.next(t); r.Outcome != rewrite.Shadowed || r.Rewrite.Outcome != rewrite.Injected || r.Sources() != 1 {
		t.Errorf("shadow: report %s, %s, %d sources", r.Outcome, r.Rewrite.Outcome, r.Sources())
	}

	for _, line := range []string{"Sidenote-Mode: best", "Sidenote-Foo: 1", "Sidenote_Mode: off"} {
		resp, body := g.post(t, chatBody, line)
		if resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || resp.Header.Get(report.HeaderStatus) != "refused; reason=invalid-option" {
			t.Errorf("%s: %d, %s", line, resp.StatusCode, body)
		}
	}
}

// Shadow work is limited. A request whose shadow work is dropped is still sent.
func TestShadowIsBounded(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	hold, held := make(chan struct{}), make(chan struct{}, 10)
	g := start(t, proxy.Config{
		Upstreams:   map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:     tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow })},
		Concurrency: 8, // allows one shadow search
	}, retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		held <- struct{}{}
		<-hold
		return fromBases(ctx, q)
	}))
	first, _ := g.post(t, chatBody)
	<-held
	second, _ := g.post(t, chatBody)
	if a, b := first.Header.Get(report.HeaderStatus), second.Header.Get(report.HeaderStatus); a != "shadow" || b != "shadow; reason=overload" {
		t.Errorf("%q and %q", a, b)
	}
	if r := g.reports.next(t); r.Reason != rewrite.ReasonOverload {
		t.Errorf("the shed one reports %q", r.Reason)
	}
	close(hold)
	if r := g.reports.next(t); r.Rewrite.Outcome != rewrite.Injected {
		t.Errorf("the other one would have been %q", r.Rewrite.Outcome)
	}
}

// I1: if a retriever fails, the request is sent without sources, unless the policy requires them.
func TestRetrievalFails(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	f := func(r retrieval.Retriever, required bool, status int, says string) {
		t.Helper()
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
			Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.Rewrite.RefuseOnFailure = required })},
		}, r)
		resp, body := g.post(t, chatBody)
		if got := resp.Header.Get(report.HeaderStatus); got != says || resp.StatusCode != status {
			t.Errorf("%d, %s, %s; want %d, %s", resp.StatusCode, got, body, status, says)
		}
		if status == 200 {
			if s := <-u.seen; s.body != chatBody {
				t.Errorf("the upstream got %s", s.body)
			}
		}
	}
	late := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Reason: retrieval.ReasonTimeout}, fmt.Errorf("late: %w", retrieval.ErrUnavailable)
	})
	broken := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{}, errors.New("broken")
	})
	bug := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) { panic("secret in a panic") })
	f(late, false, 200, "untouched; reason=retrieval-timeout")
	f(late, true, 503, "refused; reason=retrieval-timeout")
	f(broken, false, 200, "untouched; reason=retrieval-error")
	f(broken, true, 503, "refused; reason=retrieval-error")
	f(bug, false, 500, "failed; reason=internal")
}

// I3: two tenants on one port get only their own sources, whatever they ask for; unknown callers
// get nothing.
func TestTenants(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{
			"stub": {BaseURL: u.url},
			"ours": {BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")},
		},
		Tenants: tenant.Tenants{Keys: []tenant.Key{
			keyOf("ka", policyOf("acme", nil)),
			keyOf("kb", policyOf("beta", func(p *tenant.Policy) { p.Upstream = "ours" })),
		}},
	}, nil)
	f := func(key, canary, upstreamKey string, lines ...string) {
		t.Helper()
		g.post(t, chatBody, append(lines, "Authorization: Bearer "+key, "Cookie: session=1", "cookie: b=2")...)
		s := <-u.seen
		if got := s.header("Cookie"); (got == "") != (upstreamKey == "Bearer sk-ours") {
			t.Errorf("%s: with the key %q the upstream got the cookie %q", key, upstreamKey, got)
		}
		if !strings.Contains(s.body, "canary of "+canary+" in kb-"+canary) || strings.Count(s.body, "canary") != 1 {
			t.Errorf("%s: upstream got %s", key, s.body)
		}
		if got := s.header("Authorization"); got != upstreamKey {
			t.Errorf("%s: upstream got the key %q", key, got)
		}
	}
	f("ka", "acme", "Bearer ka")
	f("kb", "beta", "Bearer sk-ours")
	f("ka", "acme", "Bearer ka", "Sidenote-Knowledge: kb-acme,kb-beta")
	f("kb", "beta", "Bearer sk-ours", "Sidenote-Knowledge: kb-beta,kb-acme", "x-api-key: kb")

	refused := func(status int, code, request string) {
		t.Helper()
		resp := g.raw(t, request)
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(b), `"code":"`+code+`"`) {
			t.Errorf("%.60q: %d, %s, %v", request, resp.StatusCode, b, err)
		}
		if len(u.seen) > 0 {
			t.Errorf("%.60q reached the upstream", request)
		}
	}
	get := func(path, lines string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n" }
	refused(401, "invalid_api_key", get("/v1/models", ""))
	refused(401, "invalid_api_key", get("/v1/models", "Authorization: Bearer kz\r\n"))
	refused(400, "ambiguous_credentials", get("/v1/models", "Authorization: Bearer ka\r\nx-api-key: kb\r\n"))
	refused(400, "ambiguous_credentials", get("/v1/models", "Authorization: Bearer ka\r\nAuthorization: Bearer kb\r\n"))
	refused(403, "route_not_allowed", get("/v1/files", "Authorization: Bearer kb\r\n"))
	refused(400, "ambiguous_path", get("/v1/files/..%2fmodels", "Authorization: Bearer kb\r\n"))
	refused(421, "misdirected", "CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com:443\r\n\r\n")

	g.raw(t, get("/v1/files", "Authorization: Bearer ka\r\n")) // with the client's own upstream key all routes are allowed
	if s := <-u.seen; s.line != "GET /v1/files HTTP/1.1" {
		t.Errorf("got %s", s.line)
	}
}

// Under on_empty: refuse Sidenote answers itself, in the requested shape.
func TestAnswersWithoutUpstream(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			p.Rewrite.OnEmpty, p.Rewrite.EmptyAnswer = rewrite.EmptyRefuse, `Not "covered".`
		})},
	}, retrieval.Func(nothing))
	resp, body := g.post(t, strings.Replace(chatBody, `"model"`, `"n":2,"model"`, 1))
	if resp.StatusCode != 200 || resp.Header.Get(report.HeaderStatus) != "answered; reason=no-match" ||
		strings.Count(body, `"content":"Not \"covered\"."`) != 2 || !strings.Contains(body, `"object":"chat.completion"`) {
		t.Errorf("%d, %v, %s", resp.StatusCode, resp.Header, body)
	}
	resp, body = g.post(t, strings.Replace(chatBody, `"model"`, `"stream":true,"stream_options":{"include_usage":true},"model"`, 1))
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") || !strings.HasSuffix(body, "data: [DONE]\n\n") ||
		strings.Count(body, `"object":"chat.completion.chunk"`) != 3 || strings.Count(body, `"usage":null`) != 2 || !strings.Contains(body, `"choices":[],"usage":{`) {
		t.Errorf("%s, %s", ct, body)
	}
	if len(u.seen) > 0 {
		t.Error("the upstream was called")
	}
}
