package proxy_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// asking returns a policy that asks for a diagnosis of each conversation.
func asking(name string, change func(*tenant.Policy)) *tenant.Policy {
	return policyOf(name, func(p *tenant.Policy) {
		p.CacheDiagnostics, p.Routes = 1, []string{"/messages"}
		if change != nil {
			change(p)
		}
	})
}

// A diagnosing upstream answers with ids in order, and with a diagnosis if it is asked for one.
func diagnosing(t *testing.T, diagnostics string) *stubUpstream {
	n := 0
	return newUpstream(t, func(_ seen, w io.Writer) {
		n++
		writeWhole(w, okJSON, fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}],"usage":{"input_tokens":900,"output_tokens":5},"diagnostics":%s}`, n, diagnostics))
	})
}

const (
	turn1   = `{"role":"user","content":"How long is parental leave?"}`
	answer1 = `{"role":"assistant","content":[{"type":"text","text":"Hello"}]}`
	turn2   = `{"role":"user","content":[{"type":"text","text":"And for fathers?","cache_control":{"type":"ephemeral"}}]}`
)

func askedIn(turns ...string) string {
	return `{"model":"m","max_tokens":5,"messages":[` + strings.Join(turns, ",") + `]}`
}

// The turns of a sampled conversation ask why the upstream's cache missed, with the id of the answer
// before, in addition to the betas of the application. Other tenants' answers are never named.
func TestDiagnosesOfAConversation(t *testing.T) {
	u := diagnosing(t, `{"cache_miss_reason":{"type":"system_changed","cache_missed_input_tokens":700}}`)
	acme, beta := asking("acme", nil), asking("beta", nil)
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("sk-sidenote-acme", acme), keyOf("sk-sidenote-beta", beta)}},
	}, nil)
	f := func(key, body, previous string, lines ...string) {
		t.Helper()
		resp := g.raw(t, messagesRequest(body, append(lines, "X-Api-Key: sk-sidenote-"+key)...))
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode, err)
		}
		s, r := u.next(t), g.reports.next(t)
		if !strings.HasPrefix(s.body, `{"diagnostics":{"previous_message_id":`+previous+`},"`) {
			t.Errorf("want %s, sent %s", previous, s.body)
		}
		if betas := strings.Split(s.header("Anthropic-Beta"), ","); !slices.Contains(betas, "cache-diagnosis-2026-04-07") || len(betas) != len(lines)+1 {
			t.Errorf("betas %q", betas)
		}
		if r.CacheMiss != (report.CacheMiss{Reason: answer.CacheMissSystem, Tokens: 700}) || r.Rewrite.Ledger.Edits[0].Name != "cache-diagnostics" {
			t.Errorf("%+v %+v", r.CacheMiss, r.Rewrite.Ledger.Edits)
		}
	}
	f("acme", askedIn(turn1), "null")
	f("beta", askedIn(turn1, answer1, turn2), "null", "anthropic-beta: a")
	f("acme", askedIn(turn1, answer1, turn2), `"msg_1"`, "anthropic-beta: a", "anthropic-beta: b")
	f("acme", askedIn(turn1, answer1, turn2, answer1, turn1), `"msg_3"`)
	f("acme", askedIn(turn2), "null")
	if n := reporttest.Count(t, g.metrics, "sidenote_cache_diagnoses_total", "system_changed"); n != 5 {
		t.Errorf("counted %v", n)
	}
}

// Nothing is asked where the application asks itself, on clouds, outside of the sample, and where
// nothing was added.
func TestRequestsWithoutDiagnosis(t *testing.T) {
	u := diagnosing(t, "null")
	f := func(name, body string, change func(*tenant.Policy)) {
		t.Helper()
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
			Tenants:   tenant.Tenants{Unknown: asking("acme", change)},
		}, nil)
		g.raw(t, messagesRequest(body))
		s, r := u.next(t), g.reports.next(t)
		if strings.Count(s.body, `"diagnostics"`) != strings.Count(body, `"diagnostics"`) || s.header("Anthropic-Beta") != "" || r.CacheMiss != (report.CacheMiss{}) {
			t.Errorf("%s: %q %s %+v", name, s.header("Anthropic-Beta"), s.body, r.CacheMiss)
		}
	}
	plain := askedIn(turn1)
	f("the application's own", `{"diagnostics":{"previous_message_id":null},`+plain[1:], nil)
	f("Vertex", `{"anthropic_version":"vertex-2023-10-16",`+plain[1:], nil)
	f("no sample", plain, func(p *tenant.Policy) { p.CacheDiagnostics = 0 })
	f("off", plain, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off })
	f("shadow", plain, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow })
	f("no knowledge", plain, func(p *tenant.Policy) { p.Rewrite.Knowledge = nil })
}

// A share of the conversations is asked about, each in all of its turns or in none.
func TestDiagnosesAreSampledByConversation(t *testing.T) {
	u := diagnosing(t, "null")
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: asking("acme", func(p *tenant.Policy) { p.CacheDiagnostics = .25 })},
	}, nil)
	asked := 0
	const conversations = 200
	for i := range conversations {
		first := fmt.Sprintf(`{"role":"user","content":"Question %d"}`, i)
		g.raw(t, messagesRequest(askedIn(first)))
		before := strings.Contains(u.next(t).body, `"diagnostics"`)
		want := report.CacheMiss{}
		if before {
			asked++
			want.Reason = answer.CacheMissFirst
		}
		if r := g.reports.next(t); r.CacheMiss != want {
			t.Errorf("%+v, want %+v", r.CacheMiss, want)
		}
		g.raw(t, messagesRequest(askedIn(first, answer1, turn2)))
		if then := strings.Contains(u.next(t).body, `"previous_message_id":"msg_`); then != before {
			t.Errorf("conversation %d: %v, then %v", i, before, then)
		}
		if want.Reason != "" {
			want.Reason = answer.CacheMissNone
		}
		if r := g.reports.next(t); r.CacheMiss != want {
			t.Errorf("%+v, want %+v", r.CacheMiss, want)
		}
	}
	if asked < conversations/8 || asked > conversations*3/8 {
		t.Errorf("%d of %d asked", asked, conversations)
	}
}

// An upstream that refuses the question gets the request once more without it and without the beta,
// and is not asked again.
func TestRefusedDiagnosis(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		if strings.Contains(s.body, `"diagnostics"`) {
			writeWhole(w, "400 Bad Request\r\nContent-Type: application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"diagnostics: Extra inputs are not permitted"}}`)
			return
		}
		writeWhole(w, okJSON, `{"id":"msg_1","content":[],"usage":{"input_tokens":900,"output_tokens":5}}`)
	})
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: asking("acme", nil)},
	}, nil)
	resp := g.raw(t, messagesRequest(askedIn(turn1), "anthropic-beta: a"))
	first, second, r := u.next(t), u.next(t), g.reports.next(t)
	if resp.StatusCode != 200 || !strings.Contains(first.body, `"diagnostics"`) || strings.Contains(second.body, `"diagnostics"`) || !strings.Contains(second.body, "sources") {
		t.Errorf("%d\n%s\n%s", resp.StatusCode, first.body, second.body)
	}
	if first.header("Anthropic-Beta") != "a,cache-diagnosis-2026-04-07" || second.header("Anthropic-Beta") != "a" {
		t.Errorf("betas %q, then %q", first.header("Anthropic-Beta"), second.header("Anthropic-Beta"))
	}
	if r.Refused != answer.EditDiagnostics || r.Outcome != rewrite.Injected || r.CacheMiss != (report.CacheMiss{}) {
		t.Errorf("%v %v %+v", r.Refused, r.Outcome, r.CacheMiss)
	}
	g.raw(t, messagesRequest(askedIn(turn1)))
	if s, r := u.next(t), g.reports.next(t); strings.Contains(s.body, `"diagnostics"`) || r.LeftOut != answer.EditDiagnostics || r.Refused != 0 {
		t.Errorf("%s %v %v", s.body, r.LeftOut, r.Refused)
	}
}
