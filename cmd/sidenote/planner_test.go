package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A helper is an upstream whose model plans. A word in the question selects its answer.
type helper struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string // credential, path and question of each call
	prompt string   // the last one
}

func newHelper(t *testing.T) *helper {
	t.Helper()
	h := &helper{}
	leaving := make(chan struct{})
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.answer(w, r, leaving) }))
	t.Cleanup(func() { close(leaving); h.Close() })
	return h
}

func (h *helper) answer(w http.ResponseWriter, r *http.Request, leaving <-chan struct{}) {
	var req struct {
		Model    string
		Messages []struct{ Role, Content string }
	}
	var data struct{ Question string }
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPost && (json.Unmarshal(body, &req) != nil || json.Unmarshal([]byte(req.Messages[1].Content), &data) != nil) {
		http.Error(w, "no prompt", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	if r.Method == http.MethodPost {
		h.asked = append(h.asked, r.Header.Get("Authorization")+" "+r.RequestURI+" "+req.Model+" "+data.Question)
		h.prompt = string(body)
	}
	h.mu.Unlock()
	text := `{"needs_retrieval": true, "queries": ["trains and flights"]}`
	for word, says := range map[string]string{
		"prose": "You may take 16 weeks. Ignore the documents.", "hundred": `["` + strings.Repeat(`q", "`, 99) + `q"]`,
		"empty": "", "thanks": `{"needs_retrieval": false}`, "listed": "1. trains and flights\n2. booking",
	} {
		if strings.Contains(data.Question, word) {
			text = says
		}
	}
	switch {
	case strings.Contains(data.Question, "down"):
		w.WriteHeader(http.StatusInternalServerError)
		return
	case strings.Contains(data.Question, "hangs"):
		select {
		case <-r.Context().Done():
		case <-leaving:
		}
		return
	case strings.Contains(data.Question, "huge"):
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
		return
	}
	content, _ := json.Marshal(text)
	fmt.Fprintf(w, `{"choices":[{"message":{"content":%s}}],"usage":{"prompt_tokens":300,"completion_tokens":20}}`, content)
}

// calls returns the calls since the last time.
func (h *helper) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

// servePlanning starts a Sidenote whose policy has a planner.
func servePlanning(t *testing.T, up *recorder, h *helper, planner string) *process {
	t.Helper()
	file := written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
upstreams: {small: {base_url: %s, api_key: {env: SMALL_KEY}}}
knowledge: {handbook: %q}
state: ":memory:"
policies: {default: {upstream: default, knowledge: [handbook], planner: %s}}
`, up.URL, h.URL, handbook(t), planner))
	return serveIn(t, func(name string) (string, bool) {
		if name != "SMALL_KEY" {
			return "", false
		}
		return "key-of-small", true
	}, "--config", file)
}

// plannedFor sends a question with the caller's key and returns the status.
func plannedFor(t *testing.T, p *process, key, question string) string {
	t.Helper()
	body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%q: %d, %v", question, resp.StatusCode, err)
	}
	return resp.Header.Get("Sidenote-Status")
}

// Whatever a planner does, the request is answered, and status, dry run, metrics and log show the
// outcome; the log never contains the queries.
func TestPlannerReasons(t *testing.T) {
	up, h := newRecorder(t), newHelper(t)
	p := servePlanning(t, up, h, "{model: planner, upstream: small, timeout: 1s}")
	for _, c := range []struct { // what works stands between what fails, or nobody is asked any more
		question, status, reason string
		queries                  int
	}{
		{"How long is parental leave?", "injected; sources=2; ", "ok", 2},
		{"Is parental leave down to 10 weeks?", "injected; sources=1; ", "error", 1},
		{"How long is parental leave, listed?", "injected; sources=2; ", "ok", 3},
		{"How long is parental leave, huge?", "injected; sources=1; ", "error", 1},
		{"How long is parental leave, prose?", "injected; sources=1; ", "invalid", 1},
		{"Parental leave hangs in the air", "injected; sources=1; ", "timeout", 1},
		{"How long is parental leave, empty?", "injected; sources=1; ", "invalid", 1},
		{"a hundred weeks of parental leave", "injected; sources=1; ", "invalid", 1},
		{"Parental leave, thanks", "untouched; reason=planner-skip; ", "ok", 0},
		{"hi", "untouched; reason=no-query-terms; ", "disabled", 0},
		{"😀😀😀", "untouched; reason=no-query-terms; ", "disabled", 0},
		{strings.Repeat("How long is parental leave? ", 4000), "injected; sources=2; ", "ok", 2}, // 110 KB
	} {
		question := c.question
		began := time.Now()
		status := plannedFor(t, p, "key-of-caller", question)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%.80s: took %v", question, took)
		}
		want := fmt.Sprintf("; planner=%s; retrieval_query_count=%d", c.reason, c.queries)
		if !strings.HasPrefix(status+"; ", c.status) || !strings.Contains(status, want) || !strings.Contains(status, `; retrieval_query_planner_model_id="planner"`) ||
			strings.Contains(status, "; late=1") != (c.reason == "timeout") {
			t.Errorf("%.80s: %s, want %s…%s", question, status, c.status, want)
		}
		var dry struct {
			Ledger struct {
				Queries  []string `json:"retrieval_queries"`
				Count    int      `json:"retrieval_query_count"`
				Enabled  bool     `json:"retrieval_query_planner_enabled"`
				Model    string   `json:"retrieval_query_planner_model_id"`
				Fallback string   `json:"retrieval_query_planner_fallback"`
			}
		}
		body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question)
		_, text := posted(t, p.admin+"/v1/rewrite", "", body)
		if err := json.Unmarshal([]byte(text), &dry); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if l := dry.Ledger; l.Count != c.queries || len(l.Queries) != c.queries || !l.Enabled || l.Model != "planner" || l.Fallback != c.reason {
			t.Errorf("%.80s: dry run %.300v", question, l)
		}
	}
	metrics := "" // the last request is counted a moment after its answer has come
	for begin := time.Now(); !strings.Contains(metrics, `sidenote_plans_total{reason="disabled"}`) && time.Since(begin) < time.Minute; {
		_, metrics = get(t, p.admin+"/metrics")
	}
	for _, line := range []string{
		`sidenote_plans_total{reason="ok"}`, `sidenote_plans_total{reason="invalid"}`, `sidenote_plans_total{reason="error"}`,
		`sidenote_plans_total{reason="timeout"}`, `sidenote_plans_total{reason="disabled"}`, `sidenote_tokens_total{kind="planner",tenant="default"} `,
		`sidenote_degraded_total{reason="invalid",stage="planner"}`, `sidenote_degraded_total{reason="timeout",stage="planner"}`,
		`sidenote_untouched_total{reason="planner-skip"} 1`, `sidenote_breaker_open{name="planner/small"} `, `sidenote_stage_duration_seconds_count{stage="plan"}`,
		`sidenote_cache_bytes{cache="plans"} `,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %s", line)
		}
	}
	log := p.out.until(t, `"retrieval_query_planner_fallback":"timeout"`)
	for _, want := range []string{`"planner":"ok","retrieval_query_count":2,"retrieval_query_planner_enabled":true,"retrieval_query_planner_applied":true,"retrieval_query_planner_model_id":"planner"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	for _, secret := range []string{"trains and flights", "parental leave", "key-of-small", "key-of-caller"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// A configured upstream is called with its own key, never the caller's. Without one the request's
// upstream is called with the caller's key, model and path. Plans are cached per credential.
func TestPlannerCredentials(t *testing.T) {
	up, h := newRecorder(t), newHelper(t)
	const question = "How long is parental leave?"
	p := servePlanning(t, up, h, "{model: planner, upstream: small}")
	for range 2 {
		plannedFor(t, p, "key-of-caller", question)
	}
	if got := h.calls(); len(got) != 1 || got[0] != "Bearer key-of-small /v1/chat/completions planner "+question {
		t.Errorf("asked %q", got)
	}
	for _, r := range up.requests {
		if got := r.header.Get("Authorization"); r.method == http.MethodPost && got != "Bearer key-of-caller" {
			t.Errorf("the request went up with %q", got)
		}
	}

	// The same server answers and plans.
	both := &recorder{Server: h.Server}
	auto := servePlanning(t, both, h, "auto")
	ask := func(key string) {
		body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"system","content":"x"},{"role":"user","content":%q}]}`, `{"question":"`+question+`"}`)
		posted(t, auto.data+"/v1/chat/completions?api-version=1", key, body)
	}
	for _, key := range []string{"one", "one", "two", "two"} {
		ask(key)
	}
	plans := map[string]int{}
	for _, call := range h.calls() {
		plans[strings.SplitN(call, " /", 2)[0]]++
		if !strings.Contains(call, " /v1/chat/completions?api-version=1 gpt-4o ") {
			t.Errorf("asked %q", call)
		}
	}
	if plans["Bearer one"] != 3 || plans["Bearer two"] != 3 { // one plan and two answers each
		t.Errorf("asked by %v", plans)
	}
}

// A planner's model is called as its row of the model table says: with room for reasoning, with low
// effort if it takes one, and without a temperature if it refuses one.
func TestPlannerOfAnyModel(t *testing.T) {
	for model, want := range map[string]string{
		"claude-opus-4-7":                 `"max_tokens":2048,"stream":false`,
		"o3":                              `"max_completion_tokens":2048,"reasoning_effort":"low","stream":false`,
		"deepseek-r1":                     `"max_tokens":4608,"temperature":0,"stream":false`,
		"gpt-4o-mini":                     `"max_tokens":512,"temperature":0,"stream":false`,
		"house-1":                         `"max_tokens":2048,"reasoning_effort":"low","stream":false`,
		"anthropic/claude-sonnet-5@house": `"max_tokens":2048,"stream":false`,
	} {
		up, h := newRecorder(t), newHelper(t)
		file := written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
upstreams: {small: %s}
knowledge: {handbook: %q}
state: ":memory:"
models: [{match: house-*, temperature: fixed, reasoning: effort}]
policies: {default: {upstream: default, knowledge: [handbook], planner: {model: %q, upstream: small}}}
`, up.URL, h.URL, handbook(t), model))
		status := plannedFor(t, serveIn(t, func(string) (string, bool) { return "", false }, "--config", file), "key", "How long is parental leave?")
		h.mu.Lock()
		prompt := h.prompt
		h.mu.Unlock()
		if !strings.HasSuffix(prompt, "],"+want+"}") || !strings.Contains(status, "planner=ok") {
			t.Errorf("%s: %s, sent %s", model, status, prompt)
		}
	}
}
