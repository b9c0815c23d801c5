package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// asks sends a question to a server that answers with body, and records the report r.
func asks(t *testing.T, status int, kind, body string, r *report.Report) (client.Answer, []string, error) {
	t.Helper()
	reports := client.NewReports()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/v1/chat/completions" || req.Header.Get("Authorization") != "Bearer sk-1" {
			t.Errorf("request %s, %v", req.URL, req.Header)
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set(report.HeaderStatus, "staged; stages=2")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		reports.Record(&report.Report{Route: route.Other}) // not of a chat
		r.Route = route.Chat
		reports.Record(r)
	}))
	defer srv.Close()
	var heard []string
	cl := client.Chat{HTTP: srv.Client(), BaseURL: srv.URL + "/v1", Key: "sk-1", Reports: reports}
	a, err := cl.Ask(t.Context(), []byte("{}"), client.Follow{
		Head:  func(status string) { heard = append(heard, status) },
		Stage: func(at, of int, name string) { heard = append(heard, fmt.Sprintf("%d/%d %s", at, of, name)) },
		Text:  func(text string) { heard = append(heard, "+"+text) },
	})
	if err == nil && a.Report.ID != r.ID {
		t.Errorf("report %q, want %q", a.Report.ID, r.ID)
	}
	return a, heard, err
}

const stream = "text/event-stream; charset=utf-8"

// chunk is an event of a stream.
func chunk(delta string, finish string) string {
	return fmt.Sprintf("data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
}

// An answer is followed while it arrives, in any format, and is complete at the end.
func TestAsk(t *testing.T) {
	begin := ": sidenote stage 1/2 draft\n\n: sidenote stage 2/2 final\n\n" + chunk(`{"role":"assistant","content":""}`, "null") + chunk(`{"content":"It "}`, "null")
	end := chunk(`{"content":"is."}`, "null") + chunk("{}", `"stop"`) + "data: {\"choices\":[],\"usage\":{}}\n\n"
	all := []string{"staged; stages=2", "1/2 draft", "2/2 final", "+It ", "+is."}
	for name, c := range map[string]struct {
		kind, body string
		heard      []string
		err        error
	}{
		"stream":       {stream, begin + end + ": sidenote-status: staged\n\ndata: [DONE]\n\n", all, nil},
		"no DONE":      {stream, begin + end, all, nil},
		"other choice": {stream, begin + `data: {"choices":[{"index":1,"delta":{"content":"no"}}]}` + "\n\n" + end + "data: [DONE]\n\n", all, nil},
		"cut":          {stream, begin, all[:4], client.ErrIncomplete},
		"a mark":       {stream, "\ufeff" + begin + end + "data: [DONE]\n\n", all, nil},
		"many lines":   {stream, strings.ReplaceAll(begin+end, `,"delta"`, ",\r\nid: 7\r\ndata: \"delta\"") + "data: [DONE]\n\n", all, nil},
		"no gaps":      {stream, strings.ReplaceAll(begin+end, "\n\n", "\n") + "data: [DONE]\n\n", all, nil},
		"parts":        {stream, begin + strings.Replace(end, `"is."`, `[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"is."}]`, 1), all, nil},
		"JSON, parts":  {"application/json", `{"id":"c1","model":"m","choices":[{"message":{"content":[{"type":"text","text":"It "},{"type":"text","text":"is."}]},"finish_reason":"stop"}]}`, []string{"staged; stages=2", "+It is."}, nil},
		"JSON":         {"application/json", `{"id":"c1","model":"m","choices":[{"message":{"content":"It is."},"finish_reason":"stop"}]}`, []string{"staged; stages=2", "+It is."}, nil},
	} {
		a, heard, err := asks(t, http.StatusOK, c.kind, c.body, &report.Report{ID: "r1"})
		if !errors.Is(err, c.err) || !slices.Equal(heard, c.heard) {
			t.Errorf("%s: %v, heard %q, want %q", name, err, heard, c.heard)
		}
		if want := (client.Answer{ID: "c1", Model: "m", Text: "It is.", Finish: "stop"}); err == nil && (a.ID != want.ID || a.Model != want.Model || a.Text != want.Text || a.Finish != want.Finish) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// An error in place of an answer, or within it, is reported, in any format.
func TestAskRefused(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
		want       string
	}{
		"shaped":      {429, "application/json", `{"error":{"message":"Too fast.","code":null}}`, "429 Too Many Requests: Too fast."},
		"a string":    {404, "application/json", `{"error":"no such model"}`, "404 Not Found: no such model"},
		"no JSON":     {502, "text/html", "<h1>Bad</h1>", "502 Bad Gateway: <h1>Bad</h1>"},
		"in a stream": {200, stream, chunk(`{"content":"It"}`, "null") + "data: {\"error\":{\"message\":\"stage draft failed\"}}\n\n", "200 OK: stage draft failed"},
		"no choices":  {200, "application/json", `{"id":"c1","choices":[]}`, "200 OK: the answer is not one to a chat"},
		"no events":   {200, stream, "data: <h1>\n\n", "200 OK: an event of the stream is no JSON"},
	} {
		_, _, err := asks(t, c.status, c.kind, c.body, &report.Report{ID: "r1"})
		refusal, ok := errors.AsType[*client.ChatRefusal](err)
		if !ok || refusal.Error() != c.want || refusal.Report.ID != "r1" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The JSON of an answer says which sources it cites.
func TestResult(t *testing.T) {
	r := report.Report{ID: "r1", Outcome: rewrite.Injected, Upstream: "default", Stages: &report.Stages{Total: 2, Called: []report.Stage{{Name: "draft", At: 1, Outcome: report.StageOK, Output: "It"}}}}
	r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 2, Doc: "b.md"}, {Doc: "out.md"}, {ID: 1, Doc: "a.md"}}
	a := client.Answer{Text: "It is [2][2], not [7] or a[0].", Report: r}
	if got := client.Cited(a.Text); !slices.Equal(got, []int{2, 7, 0}) {
		t.Errorf("cited %v", got)
	}
	shadow := a
	if shadow.Report.Outcome = "shadow"; len(shadow.Sources()) > 0 {
		t.Error("sources that no model was shown")
	}
	got, err := json.Marshal(a.Result("Is it?"))
	want := `"sources":[{"id":1,"kb_id":"","doc_id":"a.md","name":"","cited":false},{"id":2,"kb_id":"","doc_id":"b.md","name":"","cited":true}],` +
		`"stages":[{"name":"draft","stage":1,"upstream":"default","model":"","calls":0,"outcome":"ok","took_ms":0,"text":"It"}]`
	if err != nil || !strings.Contains(string(got), want) {
		t.Errorf("%v, %s", err, got)
	}
}

// An error is explained on one line, with a remedy and without keys.
func TestExplain(t *testing.T) {
	address, err := url.Parse("https://api.test/v1")
	if err != nil {
		t.Fatal(err)
	}
	answered := func(status int) []report.Call { return []report.Call{{Status: status}} }
	down := errors.New("connection refused")
	// staged returns the report of a chat whose first stage failed.
	staged := func(upstream string, of report.StageOutcome, status int) report.Report {
		return report.Report{Outcome: report.Failed, Stages: &report.Stages{Total: 2, Called: []report.Stage{{Name: "draft", Upstream: upstream, Outcome: of, Status: status}}}}
	}
	for want, c := range map[string]struct {
		own, sent string // keys
		down      error
		err       error
	}{
		"upstream https://api.test/v1 broke off its answer; ask again": {err: client.ErrIncomplete},
		"upstream https://api.test/v1 cannot be reached: connection refused; is it running, and is the address right?": {
			down: down, err: &client.ChatRefusal{Status: 502, Report: report.Report{Outcome: report.Failed, Reason: report.ReasonUpstreamConnect}}},
		"not reached": { // it is up again
			err: &client.ChatRefusal{Status: 502, Message: "not reached", Report: report.Report{Outcome: report.Failed, Reason: report.ReasonUpstreamConnect}}},
		"the question is refused (rate-limit): later": {err: &client.ChatRefusal{Status: 429, Message: "later", Report: report.Report{Outcome: rewrite.Refused, Reason: report.ReasonRateLimit}}},
		"upstream https://api.test/v1 wants a key; set OPENAI_API_KEY, or api_key of the upstream in --config: who?": {
			err: &client.ChatRefusal{Status: 401, Message: "who?", Report: report.Report{Calls: answered(401)}}},
		"upstream https://api.test/v1 does not take the key of OPENAI_API_KEY: (a key) is none": {
			sent: "sk-sent", err: &client.ChatRefusal{Status: 401, Message: "sk-sent is none", Report: report.Report{Calls: answered(401)}}},
		"upstream https://api.test/v1 does not take its api_key of --config: (a key)· is none": {
			own: "sk-own", err: &client.ChatRefusal{Status: 401, Message: "sk-own\x1b is none", Report: report.Report{Calls: answered(401)}}},
		"upstream https://api.test/v1 answers 429 Too Many Requests: slow down": {err: &client.ChatRefusal{Status: 429, Message: "slow down", Report: report.Report{Calls: answered(429)}}},
		"stage draft failed: timeout":                                           {err: &client.ChatRefusal{Status: 504, Message: "stage draft failed: timeout", Report: report.Report{Calls: answered(200)}}},
		"upstream https://api.test/v1 cannot be reached: connection refused; is it running, and is the address right? ": {
			down: down, err: &client.ChatRefusal{Status: 502, Message: "stage draft failed", Report: staged("", report.StageConnect, 0)}},
		"stage of another upstream": {
			down: down, err: &client.ChatRefusal{Status: 502, Message: "stage of another upstream", Report: staged("other", report.StageConnect, 0)}},
		"upstream https://api.test/v1 wants a key; set OPENAI_API_KEY, or api_key of the upstream in --config: stage draft failed": {
			err: &client.ChatRefusal{Status: 502, Message: "stage draft failed", Report: staged("", report.StageRefused, 401)}},
		"stage draft failed with status 500": {
			err: &client.ChatRefusal{Status: 502, Message: "stage draft failed with status 500", Report: staged("", report.StageServer, 500)}},
		"context canceled": {err: context.Canceled},
	} {
		u := client.Upstream{
			Upstream: proxy.Upstream{BaseURL: address, APIKey: proxy.NewSecret(c.own)}, Key: c.sent,
			Reach: func(context.Context) error { return c.down },
		}
		if got := u.Explain(t.Context(), c.err).Error(); got != strings.TrimSpace(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A name is that of a policy, or else of a preset, which changes only how the default policy
// answers.
func TestUnder(t *testing.T) {
	load := func(text string) *config.Config {
		cfg, err := config.Load(config.Source{Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte("upstream: https://api.test\n" + text), nil }})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	const two = "policies: {default: {context_tokens: 700}, brief: {mode: off}}"
	for _, c := range []struct {
		text, name string
		mode       rewrite.Mode
		stages     int
		tokens     int
	}{
		{"", "medical", rewrite.Staged, 4, 2000}, {two, "careful", rewrite.Staged, 3, 700}, {two, "brief", rewrite.Off, 0, 2000}, {"", "default", rewrite.Inject, 0, 2000},
	} {
		under, err := client.ChatUnder(load(c.text), config.Name(c.name))
		if err != nil {
			t.Fatal(err)
		}
		p, ok := under.Tenant(config.Name(c.name))
		if !ok || p.Rewrite.Mode != c.mode || len(p.Stages.Stages) != c.stages || p.Rewrite.ContextTokens != c.tokens {
			t.Errorf("%s: mode %s, %d stages, %d tokens", c.name, p.Rewrite.Mode, len(p.Stages.Stages), p.Rewrite.ContextTokens)
		}
	}
	if _, err := client.ChatUnder(load(two), "other"); err == nil || err.Error() != `neither a policy nor a preset is named "other"; there are brief, careful, default, medical` {
		t.Errorf("%v", err)
	}
}
