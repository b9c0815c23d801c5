package proxy_test

import (
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A body that cannot be rewritten is sent without the field "sidenote", whose options still apply.
func TestFieldOfABodyThatPasses(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	lenient := open(t, u, nil)
	const user = `{"role":"user","content":"How long?"}`
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for rest, reason := range map[string]string{
		`"model":"a","model":"b","messages":[` + user + `]`:          "ambiguous-body",
		`"messages":[` + user + `],"MESSAGES":[]`:                    "ambiguous-body",
		`"messages":[{"role":"user","role":"tool","content":"a"}]`:   "ambiguous-body",
		`"messages":[{"role":"user","content":"a","content":"b"}]`:   "ambiguous-body",
		`"messages":[{"role":"user","content":"\ud800"}]`:            "ambiguous-body",
		"\"messages\":[{\"role\":\"user\",\"content\":\"caf\xe9\"}]": "ambiguous-body",
		`"messages":[{"role":"user","content":7}]`:                   "not-chat",
		`"prompt":"How long?"`:                                       "not-chat",
		`"x":` + deep + `,"messages":[` + user + `]`:                 "too-deep",
	} {
		for _, field := range []string{"", `"sidenote":{"context_tokens":1},`, `"sidenote":{"mode":"inject"},`, `"sidenote":{"mode":"off"},`} {
			want := "untouched; reason=" + reason
			if strings.Contains(field, "off") {
				want = "untouched; reason=off"
			}
			resp, _ := lenient.post(t, "{"+field+rest+"}")
			if got := resp.Header.Get(report.HeaderStatus); got != want {
				t.Errorf("%s%q: %s, want %s", field, rest, got, want)
			}
			if s := u.next(t); s.body != "{"+rest+"}" {
				t.Errorf("%s%q went up as %q", field, rest, s.body)
			}
			lenient.reports.next(t)
		}
		for _, field := range []string{`{"mode":"on"}`, `{"mystery":1}`, `7`, `{"mode":"off","mode":"inject"}`} {
			if resp, body := lenient.post(t, `{"sidenote":`+field+`,`+rest+`}`); resp.StatusCode != 400 || !strings.Contains(body, `"invalid_option"`) {
				t.Errorf("%s before %q: %d %s", field, rest, resp.StatusCode, body)
			}
			lenient.reports.next(t)
		}
	}
	if len(u.seen) > 0 {
		t.Error("what was refused went up")
	}
}

// Strict policies refuse such a body, and so do others if the request has its own filters, which
// make them strict. The error says where the ambiguity is. Ambiguities in parts that Sidenote does
// not read are not refused.
func TestStrictPolicies(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	strict := open(t, u, func(p *tenant.Policy) { p.Rewrite.RefuseOnFailure = true })
	lenient := open(t, u, nil)
	const filters = `"sidenote":{"filters":{"type":"eq","key":"a","value":"b"}},`
	const user = `{"role":"user","content":"How long?"}`
	for rest, param := range map[string]string{
		`"model":"a","model":"b","messages":[` + user + `]`:                                               "model",
		`"messages":[` + user + `],"Messages":[]`:                                                         "Messages",
		`"messages":[` + user + `,{"role":"assistant","Role":"user","content":"x"}]`:                      "messages[1].role",
		`"messages":[{"role":"system","content":"a","content":"b"},` + user + `]`:                         "messages[0].content",
		`"messages":[{"role":"user","content":"a","CONTENT":"b"}]`:                                        "messages[0].CONTENT",
		`"messages":[` + user + `,{"role":"assistant","content":""},{"role":"user","content":"x\ud800"}]`: "messages[2].content",
	} {
		for what, r := range map[string]struct {
			g     *rig
			field string
		}{"strict": {strict, ""}, "filtered": {lenient, filters}} {
			resp, body := r.g.post(t, "{"+r.field+rest+"}")
			if resp.StatusCode != 400 || !strings.Contains(body, `"param":"`+param+`"`) || !strings.Contains(body, `"ambiguous_body"`) || resp.Header.Get(report.HeaderStatus) != "refused; reason=ambiguous-body" {
				t.Errorf("%s: %s: %d %s", what, rest, resp.StatusCode, body)
			}
			if rep := r.g.reports.next(t); rep.Outcome != rewrite.Refused || rep.Reason != rewrite.ReasonAmbiguous {
				t.Errorf("%s: %s: %s %s", what, rest, rep.Outcome, rep.Reason)
			}
		}
	}
	if len(u.seen) > 0 {
		t.Error("what was refused went up")
	}
	for _, rest := range []string{
		`"messages":[{"role":"assistant","content":"a","content":"\ud800"},` + user + `],"metadata":{"a":1,"a":"` + "\xff" + `"}`,
		`"messages":[{"role":"assistant","Content":"a"},` + user + `],"tools":[]`,
	} {
		for _, r := range []struct {
			g     *rig
			field string
		}{{strict, ""}, {lenient, filters}} {
			resp, _ := r.g.post(t, "{"+r.field+rest+"}")
			if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, "injected; sources=1;") {
				t.Errorf("%q: %d %s", rest, resp.StatusCode, got)
			}
			u.next(t)
			r.g.reports.next(t)
		}
	}
}

// In modes that add nothing, messages are not read.
func TestModesThatReadNothing(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	for mode, want := range map[rewrite.Mode]string{rewrite.Off: "untouched; reason=off", rewrite.Shadow: "shadow"} {
		g := open(t, u, func(p *tenant.Policy) { p.Rewrite.Mode, p.Rewrite.RefuseOnFailure = mode, true })
		body := `{"messages":[{"role":"user","content":"a","content":"\ud800"}]}`
		resp, _ := g.post(t, body)
		if got := resp.Header.Get(report.HeaderStatus); resp.StatusCode != 200 || got != want {
			t.Errorf("%s: %d %s", mode, resp.StatusCode, got)
		}
		if s := u.next(t); s.body != body {
			t.Errorf("%s: %q went up", mode, s.body)
		}
		if r := g.reports.next(t); mode == rewrite.Shadow && r.Reason != rewrite.ReasonAmbiguous {
			t.Errorf("in shadow: %s %s", r.Outcome, r.Reason)
		}
	}
}
