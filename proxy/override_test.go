package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// overriding gives a policy overrides: mode off for gpt-4*, a budget of 10 tokens and no names in
// the headers for o3, mode off for one deployment.
func overriding(p *tenant.Policy) {
	with := func(hash string, change func(*tenant.Policy)) *tenant.Policy {
		o := *p
		o.Hash, o.Overrides = hash, nil
		change(&o)
		return &o
	}
	off := func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off }
	p.Overrides = []tenant.Override{
		{Models: tenant.Models{"gpt-4*"}, Policy: with("0000000a", off)},
		{Models: tenant.Models{"o3", "gpt-4o"}, Policy: with("0000000b", func(p *tenant.Policy) { p.Rewrite.ContextTokens = 10 })},
		{Routes: []string{"/deployments/small/chat/completions"}, Policy: with("0000000c", off)},
		{Models: tenant.Models{"named"}, Routes: []string{"/app/chat/completions"}, Policy: with("0000000d", func(p *tenant.Policy) { p.Expose = report.ExposeNone })},
	}
}

// The first override that matches model and path of a chat applies. Its changes and its hash are
// those of the request.
func TestOverridesOfChats(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, overriding)
	const question = `"messages":[{"role":"user","content":"How long is parental leave?"}]`
	for _, c := range []struct{ path, body, status, hash string }{
		{"/v1/chat/completions", `{"model":"gpt-5",`, "injected; sources=1;", "00000001"},
		{"/v1/chat/completions", `{"model":"gpt-4o",`, "untouched; reason=off", "0000000a"}, // the first of two
		{"/v1/chat/completions", `{"model":"gpt\u002d4",`, "untouched; reason=off", "0000000a"},
		{"/v1/chat/completions", `{"model":"GPT-4",`, "injected; sources=1;", "00000001"},
		{"/v1/chat/completions", `{"model":"o3",`, "untouched; reason=budget", "0000000b"},
		{"/v1/chat/completions", `{`, "injected; sources=1;", "00000001"},
		{"/openai/deployments/gpt-4/chat/completions?api-version=1", `{`, "untouched; reason=off", "0000000a"},
		{"/openai/deployments/small/chat/completions", `{"model":"small",`, "untouched; reason=off", "0000000c"},
		{"/app/chat/completions", `{"model":"named",`, "injected; sources=1;", "0000000d"},
		{"/app/chat/completions", `{"model":"other",`, "injected; sources=1;", "00000001"},
		{"/v1/chat/completions", `{"model":"named",`, "injected; sources=1;", "00000001"},
	} {
		body := c.body + question + "}"
		resp := g.raw(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", c.path, len(body), body))
		status, r := resp.Header.Get(report.HeaderStatus), g.reports.next(t)
		if !strings.HasPrefix(status, c.status) || r.PolicyHash != c.hash || r.Policy != "base" {
			t.Errorf("%s %s: %s, policy %s; want %s, %s", c.path, c.body, status, r.PolicyHash, c.status, c.hash)
		}
		if named := resp.Header.Get(report.HeaderSources) != ""; named != (strings.HasPrefix(c.status, "injected") && c.hash != "0000000d") {
			t.Errorf("%s %s: sources in the header: %v", c.path, c.body, named)
		}
		if s := u.next(t); (s.body == body) != strings.HasPrefix(status, "untouched") {
			t.Errorf("%s %s went up as %s", c.path, c.body, s.body)
		}
	}
}

// C11, T19: a request is refused if it is ambiguous which override matches.
func TestOverridesOfAmbiguousChats(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, overriding)
	const question = `"messages":[{"role":"user","content":"x"}]`
	f := func(path, body, code string) {
		t.Helper()
		resp := g.raw(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body))
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(text), `"code":"`+code+`"`) {
			t.Errorf("%s %s: %d %s", path, body, resp.StatusCode, text)
		}
		g.reports.next(t)
	}
	const path = "/v1/chat/completions"
	f(path, `{"model":"gpt-5","fallbacks":["gpt-4"],`+question+`}`, "ambiguous_body")
	f(path, `{"model":"gpt-5","models":"gpt-4",`+question+`}`, "ambiguous_body")
	f(path+"?model=gpt-4", `{"model":"gpt-5",`+question+`}`, "ambiguous_path")
	f("/v1/deployments/gpt-4/chat/completions", `{"model":"gpt-5",`+question+`}`, "ambiguous_body")
	f("/v1/deployments/%67pt-4/chat/completions", `{"model":"gpt-5",`+question+`}`, "ambiguous_path")
	if len(u.seen) > 0 {
		t.Errorf("what was refused went up: %q", <-u.seen)
	}
	// If all models that are named lead to the same rules nothing is ambiguous. A body that cannot
	// be read at all is relayed without sources, as under other policies.
	for _, body := range []string{`{"model":"gpt-5","models":["gpt-5-mini"],` + question + `}`, `{"model":"gpt-4","model":"gpt-5",` + question + `}`} {
		if resp, text := g.post(t, body); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", body, resp.StatusCode, text)
		}
		u.next(t)
	}
}

// If one override is strict, the policy is strict towards bodies that cannot be read.
func TestStrictOverride(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, func(p *tenant.Policy) {
		overriding(p)
		p.Overrides[1].Policy.Rewrite.RefuseOnFailure, p.MaxRewriteBytes = true, 500
	})
	for body, code := range map[string]int{`{"model":"o3","model":"gpt-5","messages":[]}`: 400, "no JSON": 400, `{"x":"` + strings.Repeat("x", 1000) + `"}`: 413} {
		if resp, text := g.post(t, body); resp.StatusCode != code {
			t.Errorf("%.40s: %d %s", body, resp.StatusCode, text)
		}
	}
}
