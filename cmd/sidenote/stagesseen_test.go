package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveStages starts Sidenote with stages draft, critic and final before an upstream that gives the
// answers one after another; "" is an error. asked returns the requests that it got.
func serveStages(t *testing.T, answers ...string) (p *process, asked func() [][]byte) {
	t.Helper()
	var mu sync.Mutex
	var bodies [][]byte
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, body)
		text := answers[min(len(bodies), len(answers))-1]
		if text == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":7,"total_tokens":%d}}`,
			text, 100*len(bodies), 100*len(bodies)+7)
	}))
	t.Cleanup(up.Close)
	dir := writeFiles(t, map[string][]byte{"c.yaml": fmt.Appendf(nil, "upstream: %s/v1\nknowledge: {docs: %q}\ntelemetry: {log: {format: json}}\npolicies:\n  default:\n    mode: staged\n    stages:\n"+
		"      - {name: draft, system_prompt: Draft it., user_prompt_template: '{{CONTEXT}} <q>{{QUESTION}}</q>'}\n"+
		"      - {name: critic, user_prompt_template: '{{draft}} {{CONTEXT}}', when: {stop_if: FINE}}\n"+
		"      - {name: final, user_prompt_template: '{{draft}} {{critic}} {{QUESTION}}'}\n", up.URL, handbook(t))})
	return serve(t, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:"), func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
}

// awaitMetrics returns the metrics once they have a chat with one source, which is counted a moment
// after its answer, its sources last. A scrape may run meanwhile, so the next one is returned.
func awaitMetrics(t *testing.T, p *process) string {
	t.Helper()
	body := ""
	for begin := time.Now(); !strings.Contains(body, "sidenote_context_sources_sum 1\n") && time.Since(begin) < time.Minute; {
		_, body = get(t, p.admin+"/metrics")
	}
	_, body = get(t, p.admin+"/metrics")
	return body
}

// A dry run shows for each stage the request that the upstream gets, with the models' answers in
// place of their placeholders; the stages' durations show in the metrics.
func TestStagesDryRunIsWhatIsAsked(t *testing.T) {
	p, asked := serveStages(t, "It is 16 weeks [1].", "Nobody says so.", "It is 14 weeks [1].")
	question := fmt.Sprintf(leaveChat, "")
	_, text := posted(t, p.admin+"/v1/rewrite", "", question)
	var dry struct {
		Outcome string
		Stages  []struct{ Stage, System, User string }
	}
	if err := json.Unmarshal([]byte(text), &dry); err != nil || dry.Outcome != "staged" || len(dry.Stages) != 3 {
		t.Fatalf("%v: %s", err, text)
	}
	if head, answer := chatWith(t, p, question); !strings.HasPrefix(head.Get("Sidenote-Status"), "staged; stages=3; sources=1; ") || !strings.Contains(answer, "It is 14 weeks [1].") {
		t.Errorf("%s: %s", head.Get("Sidenote-Status"), answer)
	}
	said := strings.NewReplacer("{{draft}}", "It is 16 weeks [1].", "{{critic}}", "Nobody says so.")
	for i, body := range asked() {
		var sent struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatal(err)
		}
		last := len(sent.Messages) - 1
		if want := said.Replace(dry.Stages[i].User); sent.Messages[last].Content != want {
			t.Errorf("%s\ngot  %s\nwant %s", dry.Stages[i].Stage, sent.Messages[last].Content, want)
		}
		if want := dry.Stages[i].System; want != "" && sent.Messages[last-1].Content != want {
			t.Errorf("%s is told %s", dry.Stages[i].Stage, body)
		}
	}
	body := awaitMetrics(t, p)
	for _, line := range []string{
		`sidenote_requests_total{outcome="staged",tenant="default"} 1`, `sidenote_answer_stages_total{outcome="ok",stage="draft"} 1`, `sidenote_answer_stages_total{outcome="ok",stage="critic"} 1`, `sidenote_answer_stages_total{outcome="ok",stage="final"} 1`,
		`sidenote_answer_stage_duration_seconds_count{stage="critic"} 1`, `sidenote_answer_stage_tokens_total{direction="input",stage="draft"} 100`,
		`sidenote_answer_stage_tokens_total{direction="input",stage="final"} 300`, `sidenote_answer_stage_tokens_total{direction="output",stage="critic"} 7`,
		`sidenote_tokens_total{kind="input",tenant="default"} 600`, `sidenote_context_sources_sum 1`, `sidenote_metrics_overflow_total 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

// Status, log and metrics name a stage that fails, and the draft that is the answer instead.
func TestFailedStageIsSeen(t *testing.T) {
	p, _ := serveStages(t, "It is 16 weeks [1].", "")
	if head, answer := chatWith(t, p, fmt.Sprintf(leaveChat, "")); !strings.HasPrefix(head.Get("Sidenote-Status"), "staged; stages=2; failed=critic; failure=server-error; answered=draft; sources=1; ") || !strings.Contains(answer, "It is 16 weeks [1].") {
		t.Errorf("%s: %s", head.Get("Sidenote-Status"), answer)
	}
	body := awaitMetrics(t, p)
	for _, line := range []string{
		`sidenote_answer_stages_total{outcome="server-error",stage="critic"} 1`, `sidenote_degraded_total{reason="server-error",stage="stages"} 1`,
		`sidenote_answer_stage_tokens_total{direction="input",stage="critic"} 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	p.stop()
	log := p.out.text.String()
	for _, want := range []string{`"stages":{"of":3,"failed":"critic","failure":"server-error","answered":"draft","called":[{"stage":"draft",`, `"msg":"degraded: requests go on without it","stage":"stages","reason":"server-error"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	if strings.Contains(log, "weeks") {
		t.Errorf("texts stand in the log: %s", log)
	}
}
