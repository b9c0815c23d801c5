package proxy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// twoBases searches bases by found, except kb-late, which does not answer in time.
func twoBases(found func(context.Context, retrieval.Query) (retrieval.Result, error)) retrieval.Retriever {
	late := func(ctx context.Context, _ retrieval.Query) (retrieval.Result, error) {
		<-ctx.Done()
		return retrieval.Result{}, ctx.Err()
	}
	return &retrieval.Pipeline{
		Bases: func(knowledge string) retrieval.Retriever {
			if knowledge == "kb-late" {
				return retrieval.Func(late)
			}
			return retrieval.Func(found)
		},
		Terms: strings.Fields,
	}
}

// If one base has sources and another one is late, the request gets those sources and a reason,
// and is refused only if the policy says so. If there is no source at all, retrieval has failed.
func TestPartialResults(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	f := func(r retrieval.Retriever, refuseFailed, refusePartial bool, status int, says string) {
		t.Helper()
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
			Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
				p.Rewrite.Knowledge, p.Rewrite.Search.Deadline = []string{"kb-acme", "kb-late"}, 20*time.Millisecond
				p.Rewrite.OnEmpty = rewrite.EmptyRefuse // a failed search does not count as empty
				p.Rewrite.RefuseOnFailure, p.Rewrite.RefuseOnPartial = refuseFailed, refusePartial
			})},
		}, r)
		resp, body := g.post(t, chatBody)
		if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got+";", says+";") || resp.StatusCode != status {
			t.Errorf("%d, %s, %s; want %d, %s", resp.StatusCode, got, body, status, says)
		}
		report := g.reports.next(t)
		if degraded := report.Degraded(); degraded != (status == 200) {
			t.Errorf("%s: degraded is %v", says, degraded)
		}
		if status == 200 {
			if s := u.next(t); strings.Contains(s.body, "canary of acme in kb-acme") != strings.HasPrefix(says, "injected") {
				t.Errorf("%s: the upstream got %s", says, s.body)
			}
		} else if !strings.Contains(body, `"code":"sources_unavailable"`) || strings.Contains(body, "canary") {
			t.Errorf("refused with %s", body)
		}
	}
	some, none := twoBases(fromBases), twoBases(nothing)
	f(some, false, false, 200, "injected; reason=retrieval-timeout; sources=1")
	f(some, true, false, 200, "injected; reason=retrieval-timeout; sources=1")
	f(some, true, true, 503, "refused; reason=retrieval-timeout")
	f(some, false, true, 503, "refused; reason=retrieval-timeout")
	f(none, true, false, 503, "refused; reason=retrieval-timeout")
	f(none, false, false, 200, "untouched; reason=retrieval-timeout")
}

// A base that was not searched does not count as empty: the answer must not say that the documents
// do not cover the question.
func TestNotSearchedIsNotEmpty(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	const image = `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`
	for _, empty := range []rewrite.OnEmpty{rewrite.EmptyRefuse, rewrite.EmptyNotice} {
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
			Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.Rewrite.OnEmpty, p.Rewrite.EmptyAnswer = empty, "Not covered." })},
		}, retrieval.Func(nothing))
		f := func(body, up, says string, lines ...string) {
			t.Helper()
			resp, answer := g.post(t, body, lines...)
			if got := resp.Header.Get(report.HeaderStatus); got != says || answer != "{}" {
				t.Errorf("%s: %s, %s; want %s", empty, got, answer, says)
			}
			if s := u.next(t); s.body != up {
				t.Errorf("%s: the upstream got %s, want %s", empty, s.body, up)
			}
		}
		f(image, image, "untouched; reason=no-query")
		f(chatBody, chatBody, "untouched; reason=no-knowledge", "Sidenote-Knowledge: other")
		f(strings.Replace(chatBody, "{", `{"sidenote":{"knowledge":[]},`, 1), strings.Replace(chatBody, "{ ", "{", 1), "untouched; reason=no-knowledge")
		f(chatBody, chatBody, "untouched; reason=off", "Sidenote-Mode: off")

		resp, answer := g.post(t, chatBody)
		if got := resp.Header.Get(report.HeaderStatus); empty == rewrite.EmptyRefuse && (got != "answered; reason=no-match" || !strings.Contains(answer, "Not covered.")) ||
			empty == rewrite.EmptyNotice && !strings.HasPrefix(got, "injected; reason=no-match; sources=0") {
			t.Errorf("%s: what was searched and empty says %s", empty, got)
		}
	}
}
