package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A misspelled base is refused with the name of the tenant's base that is meant, in the header and
// in the body, in any mode. Other tenants' bases make no difference (I3): neither their names nor
// their existence are revealed.
func TestMistypedBase(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	having := func(name string, bases ...string) *tenant.Policy {
		return policyOf(name, func(p *tenant.Policy) { p.Rewrite.Knowledge = bases })
	}
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants: tenant.Tenants{Keys: []tenant.Key{
			keyOf("ka", having("acme", "kb-acme", "product-v1")), keyOf("kb", having("beta", "handbook", "product-v2")),
		}},
	}, nil)
	field := func(ids string) string {
		return strings.Replace(chatBody, `"model"`, `"sidenote":{"knowledge":`+ids+`}, "model"`, 1)
	}
	type answer struct {
		Error struct{ Message, Type, Code, Param string }
	}
	refused := func(param, id, meant, body string, lines ...string) {
		t.Helper()
		resp, text := g.post(t, body, append(lines, "Authorization: Bearer ka")...)
		var a answer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		want := param + `: there is no knowledge base "` + id + `" here; did you mean ` + meant + "?"
		if resp.StatusCode != 400 || a.Error.Param != param || a.Error.Message != want || a.Error.Type != "invalid_request_error" ||
			resp.Header.Get(report.HeaderStatus) != "refused; reason="+string(rewrite.ReasonOption) {
			t.Errorf("%v: %d %s %s", lines, resp.StatusCode, resp.Header.Get(report.HeaderStatus), text)
		}
		if len(u.seen) > 0 {
			t.Errorf("%v: went up: %+v", lines, <-u.seen)
		}
	}
	refused("Sidenote-Knowledge", "kb-amce", "kb-acme", chatBody, "Sidenote-Knowledge: kb-amce")
	refused("Sidenote-Knowledge", "kb-amce", "kb-acme", chatBody, "Sidenote-Knowledge: product-v1, kb-amce", "Sidenote-Mode: shadow")
	refused("Sidenote-Knowledge", "kb-acm", "kb-acme", chatBody, "Sidenote-Knowledge: kb-acm", "Sidenote-Mode: off")
	refused("sidenote.knowledge", "kbacme", "kb-acme", field(`"kbacme"`))
	refused("sidenote.knowledge", "kbacme", "kb-acme", field(`["product-v1","kbacme"]`), "Sidenote-Knowledge: product-v1")
	refused("Sidenote-Knowledge", "kb-acm", "kb-acme", field(`"kb-acme"`), "Sidenote-Knowledge: kb-acm")
	// Another tenant's base is answered like a base that does not exist.
	refused("Sidenote-Knowledge", "product-v2", "product-v1", chatBody, "Sidenote-Knowledge: product-v2")
	refused("Sidenote-Knowledge", "product-v3", "product-v1", chatBody, "Sidenote-Knowledge: product-v3")

	passes := func(body string, lines ...string) {
		t.Helper()
		if resp, text := g.post(t, body, append(lines, "Authorization: Bearer ka")...); resp.StatusCode != 200 || strings.Contains(text, "handb") {
			t.Errorf("%v: %d %s", lines, resp.StatusCode, text)
		}
		u.next(t)
	}
	passes(chatBody, "Sidenote-Knowledge: handbook")               // another tenant's: it exists, which must not show
	passes(chatBody, "Sidenote-Knowledge: handbok")                // close to that one
	passes(chatBody, "Sidenote-Knowledge: none")                   // close to none
	passes(chatBody, "Sidenote-Knowledge: product-v2, product-v1") // who names bases of all tenants gets its own
	passes(field(`[]`))
}
