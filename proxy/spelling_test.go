package proxy_test

import (
	"os"
	"strings"
	"testing"

	"sidenote/proxy/tenant"
)

// The documented spellings of the path count as chat requests, are relayed unchanged, and are
// refused by a strict policy.
func TestSpellingsOfChat(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, answerJSON("{}"))
	lenient := open(t, u, nil)
	strict := open(t, u, func(p *tenant.Policy) { p.Rewrite.RefuseOnFailure = true })
	post := func(g *rig, path string) int {
		return g.raw(t, strings.Replace(chatRequest(chatBody), "/v1/chat/completions", path, 1)).StatusCode
	}
	for said, path := range map[string]string{
		"any path before": "/v1/some/gateway/chat/completions",
		"any query after": "/v1/chat/completions?x=1",
		"letter case":     "/v1/Chat/COMPLETIONS",
		"`%63`":           "/v1/%63hat/completions",
		"`%2F`":           "/v1/chat%2Fcompletions",
		"`\\`":            `/v1/chat\completions`,
		"`//`":            "/v1//chat/completions",
		"`/./`":           "/v1/chat/./completions",
		"`/x/../`":        "/v1/x/../chat/completions",
		"`;v=1`":          "/v1/chat;v=1/completions",
		"a final `/`":     "/v1/chat/completions/",
	} {
		if !strings.Contains(string(page), said) {
			t.Errorf("the page does not tell of %s", said)
		}
		if status := post(lenient, path); status != 200 {
			t.Errorf("%s: %d", path, status)
			continue
		}
		if s := u.next(t); s.line != "POST "+path+" HTTP/1.1" || !strings.Contains(s.body, "<sources>") {
			t.Errorf("%s went up as %s with %s", path, s.line, s.body)
		}
		plain := path == "/v1/some/gateway/chat/completions" || path == "/v1/chat/completions?x=1"
		if status := post(strict, path); plain && status != 200 || !plain && status != 400 {
			t.Errorf("%s, strict: %d", path, status)
		} else if plain {
			u.next(t)
		}
	}
	if post(lenient, "/v1/chat%252Fcompletions"); strings.Contains(u.next(t).body, "<sources>") {
		t.Error("a path was decoded twice")
	}
}
