package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sidenote/proxy/mcp"
)

// A judge is a service that reranks in all dialects, grades and plans. It ranks the document about
// snails first. A sign in the question selects its answer.
type judge struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // credential, path and number of documents of each call
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{}
	leaving := make(chan struct{})
	j.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.answer(w, r, leaving) }))
	t.Cleanup(func() { close(leaving); j.Close() })
	return j
}

func (j *judge) answer(w http.ResponseWriter, r *http.Request, leaving <-chan struct{}) {
	var req struct {
		Query            string
		Documents, Texts []string
		Messages         []struct{ Content string }
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &req) != nil { // a probe
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	texts, chat := slices.Concat(req.Documents, req.Texts), len(req.Messages) > 0
	if chat {
		var data struct {
			Question  string
			Documents []struct{ Text string }
		}
		_ = json.Unmarshal([]byte(req.Messages[1].Content), &data)
		for req.Query = data.Question; len(texts) < len(data.Documents); {
			texts = append(texts, data.Documents[len(texts)].Text)
		}
	}
	j.mu.Lock()
	j.asked = append(j.asked, fmt.Sprint(r.Header.Get("Authorization"), " ", r.RequestURI, " ", len(texts)))
	j.mu.Unlock()
	list := []map[string]any{}
	for i, text := range texts {
		score := 0.1
		switch {
		case strings.Contains(req.Query, "∅"):
		case strings.Contains(text, "snails"):
			score = 0.9
		case strings.Contains(req.Query, "≈"):
			score = 0.5
		}
		switch {
		case chat:
			list = append(list, map[string]any{"index": i, "score": 10 * score})
		case req.Texts != nil:
			list = append(list, map[string]any{"index": i, "score": score})
		default:
			list = append(list, map[string]any{"index": i, "relevance_score": score})
		}
	}
	switch {
	case strings.Contains(req.Query, "↓"):
		w.WriteHeader(http.StatusInternalServerError)
		return
	case strings.Contains(req.Query, "↔"):
		select {
		case <-r.Context().Done():
		case <-leaving:
		}
		return
	case strings.Contains(req.Query, "↑"):
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
		return
	case strings.Contains(req.Query, "←"):
		list = list[1:]
	case strings.Contains(req.Query, "→"):
		list[0]["index"] = len(list)
	case strings.Contains(req.Query, "☂"):
		_, _ = io.WriteString(w, `{"error":{"message":"overloaded"}}`)
		return
	}
	var answer any = list
	switch {
	case chat && len(texts) == 0: // a planner asks
		answer = map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": `{"queries": ["snails"]}`}}}}
	case chat:
		text, _ := json.Marshal(map[string]any{"scores": list})
		answer = map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": string(text)}}}, "usage": map[string]any{"prompt_tokens": 300, "completion_tokens": 20}}
	case req.Texts == nil:
		answer = map[string]any{"results": list}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (j *judge) calls() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	asked := j.asked
	j.asked = nil
	return asked
}

// gardenFolder is a folder with documents about gardens.
func gardenFolder(t *testing.T) string {
	t.Helper()
	return writeFiles(t, map[string][]byte{
		"beds.md":    []byte("# Garden beds\n\nGarden garden beds in the garden: how a garden is laid out."),
		"paths.md":   []byte("# Garden paths\n\nA garden has paths; the paths of a garden are of gravel."),
		"plants.md":  []byte("# Plants\n\nPlants of the garden are watered by night."),
		"visitor.md": []byte("# Visitors\n\nThere are snails, which come to every corner by night and leave with the dawn: a garden has them too."),
	})
}

// serveReranking starts a Sidenote whose policy has a reranker, over documents about gardens.
func serveReranking(t *testing.T, up *recorder, j *judge, rerank string) *process {
	t.Helper()
	file := written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
upstreams: {judge: {base_url: %s, api_key: {env: JUDGE_KEY}}}
knowledge: {docs: %q}
state: ":memory:"
mcp: 127.0.0.1:0
policies: {default: {upstream: default, knowledge: [docs], rerank: %s}}
`, up.URL, j.URL, gardenFolder(t), rerank))
	return serveIn(t, func(name string) (string, bool) {
		if name != "JUDGE_KEY" {
			return "", false
		}
		return "key-of-judge", true
	}, "--config", file)
}

// ledgerOf returns the dry run of a question.
func ledgerOf(t *testing.T, p *process, question string) (order []string, reason string) {
	t.Helper()
	var dry struct {
		Ledger struct {
			Sources []struct {
				ID  int
				Doc string `json:"doc_id"`
			}
			Rerank struct{ Reason string }
		}
	}
	_, text := posted(t, p.admin+"/v1/rewrite", "", fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question))
	if err := json.Unmarshal([]byte(text), &dry); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, s := range dry.Ledger.Sources {
		if s.ID > 0 {
			order = append(order, s.Doc)
		}
	}
	return order, dry.Ledger.Rerank.Reason
}

// Each dialect ranks the best document first and is called with the upstream's own key; the order
// is cached.
func TestRerankDialects(t *testing.T) {
	const question = "What is in the garden?"
	plain, _ := ledgerOf(t, serveReranking(t, newRecorder(t), newJudge(t), "off"), question)
	if len(plain) != 4 || plain[0] == "visitor.md" {
		t.Fatalf("without a reranker: %q", plain)
	}
	want := append([]string{"visitor.md"}, slices.DeleteFunc(slices.Clone(plain), func(doc string) bool { return doc == "visitor.md" })...)
	for dialect, path := range map[string]string{"cohere": "/v1/rerank 4", "tei": "/rerank 4", "llm": "/v1/chat/completions 1"} {
		j := newJudge(t)
		p := serveReranking(t, newRecorder(t), j, "{upstream: judge, model: m, dialect: "+dialect+"}")
		for range 2 {
			if status := plannedFor(t, p, "key-of-caller", question); !strings.Contains(status, "; rerank=ok; ") || strings.Contains(status, "degraded") {
				t.Errorf("%s: %s", dialect, status)
			}
		}
		calls := j.calls()
		if n := map[string]int{"llm": 4}[dialect]; len(calls) != max(1, n) || calls[0] != "Bearer key-of-judge "+path {
			t.Errorf("%s: asked %q", dialect, calls)
		}
		if order, reason := ledgerOf(t, p, question); !slices.Equal(order, want) || reason != "ok" || len(j.calls()) > 0 {
			t.Errorf("%s: %q, %s, want %q", dialect, order, reason, want)
		}
		_, dry := posted(t, p.admin+"/v1/rewrite", "", fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question))
		if strings.Count(dry, `"rerank_score":0.9,"fate":"in"`) != 1 || strings.Count(dry, `"rerank_score":0.1,"fate":"in"`) != 3 {
			t.Errorf("%s: %s", dialect, dry)
		}
	}
}

// Tools return what a policy's reranker ranks first, over the admin port and MCP as for a model,
// and the relevance of files comes from its scores.
func TestToolsAreReranked(t *testing.T) {
	const ask = `{"query":"What is in the garden?"}`
	for dialect, path := range map[string]string{"tei": "/rerank 4", "llm": "/v1/chat/completions 1"} {
		j := newJudge(t)
		p := serveReranking(t, newRecorder(t), j, "{upstream: judge, model: m, dialect: "+dialect+"}")
		_, files := posted(t, p.admin+"/v1/tools/search_files?tenant=default", "", ask)
		if !strings.HasPrefix(files, `{"documents":[{"path":"visitor.md","relevance":9,"is_relevant":true},{`) || strings.Count(files, `"relevance":1,"is_relevant":true`) != 3 {
			t.Errorf("%s: %s", dialect, files)
		}
		if calls := j.calls(); len(calls) == 0 || calls[0] != "Bearer key-of-judge "+path {
			t.Errorf("%s: asked %q", dialect, calls)
		}
		_, hits := posted(t, p.admin+"/v1/tools/search_knowledge?tenant=default", "", ask)
		if !strings.HasPrefix(hits, `{"hits":[{"ref_id":"docs:visitor.md:0"`) || len(j.calls()) > 0 {
			t.Errorf("%s: %s", dialect, hits)
		}
		_, rest, _ := strings.Cut(p.out.until(t, mcp.Path), `"msg":"mcp","detail":"`)
		address, _, _ := strings.Cut(rest, `"`)
		client := connectMCP(t, &sdk.StreamableClientTransport{Endpoint: address}, "")
		byMCP := callMCP(t, client, "search_files", map[string]any{"query": "What is in that garden?"})
		asked := j.calls()
		if err := client.Close(); err != nil || !strings.HasPrefix(byMCP, `{"documents":[{"path":"visitor.md","relevance":9`) || len(asked) == 0 {
			t.Errorf("%s: %s, %v, asked %q", dialect, byMCP, err, asked)
		}
		// Nothing is charged if no tenant is given, or nothing is searched.
		_, plain := posted(t, p.admin+"/v1/tools/search_files", "", `{"query":"Garden, what is in it?"}`)
		_, read := posted(t, p.admin+"/v1/tools/read_knowledge?tenant=default", "", `{"refs":["docs:visitor.md:0"]}`)
		if strings.HasPrefix(plain, `{"documents":[{"path":"visitor.md"`) || !strings.Contains(read, "snails") || len(j.calls()) > 0 {
			t.Errorf("%s: %s, %s", dialect, plain, read)
		}
	}
}

// Whatever a reranker does, the request is answered with what the search found in its order, and
// status, dry run, metrics and log say what happened. Failures are not cached.
func TestRerankReasons(t *testing.T) {
	j := newJudge(t)
	p := serveReranking(t, newRecorder(t), j, "{upstream: judge, model: m, dialect: tei, timeout: 500ms}")
	plain := serveReranking(t, newRecorder(t), j, "off")
	for _, c := range []struct{ question, reason string }{ // what works stands between what fails, or nobody is asked any more
		{"What is in the garden?", "ok"},
		{"What is in the garden? ↓", "error"},
		{"What is in the garden? →", "invalid"},
		{"Garden, what is in it?", "ok"},
		{"What is in the garden? ↔", "timeout"},
		{"What is in the garden? ←", "invalid"},
		{"What is in that garden?", "ok"},
		{"What is in the garden? ↑", "error"},
		{"What is in the garden? ☂", "invalid"},
		{"snails", "disabled"},
	} {
		status := plannedFor(t, p, "key-of-caller", c.question)
		failed := c.reason != "ok" && c.reason != "disabled"
		if !strings.HasPrefix(status, "injected; ") || !strings.Contains(status, "; rerank="+c.reason+"; ") || strings.Contains(status, "; degraded=rerank; ") != failed ||
			strings.Contains(status, "; late=1; ") != (c.reason == "timeout") {
			t.Errorf("%s: %s", c.question, status)
		}
		if !failed {
			continue
		}
		want, _ := ledgerOf(t, plain, c.question)
		if order, reason := ledgerOf(t, p, c.question); !slices.Equal(order, want) || reason != c.reason {
			t.Errorf("%s: %q, %s, want %q", c.question, order, reason, want)
		}
	}
	text := "" // the last request is counted a moment after its answer has come
	for begin := time.Now(); !strings.Contains(text, `sidenote_reranks_total{reason="disabled"}`) && time.Since(begin) < time.Minute; {
		_, text = get(t, p.admin+"/metrics")
	}
	for _, line := range []string{
		`sidenote_reranks_total{reason="ok"}`, `sidenote_reranks_total{reason="invalid"}`, `sidenote_reranks_total{reason="error"}`,
		`sidenote_reranks_total{reason="timeout"}`, `sidenote_reranks_total{reason="disabled"}`,
		`sidenote_degraded_total{reason="invalid",stage="rerank"}`, `sidenote_degraded_total{reason="timeout",stage="rerank"}`,
		`sidenote_degraded_total{reason="error",stage="rerank"}`, `sidenote_breaker_open{name="rerank-tei/judge"} `,
		`sidenote_stage_duration_seconds_count{stage="rerank"}`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
	if t.Failed() {
		return
	}
	log := p.out.until(t, `"rerank":"timeout","rerank_model":"m","rerank_documents":`)
	for _, secret := range []string{"gravel", "garden", "key-of-judge", "key-of-caller"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}
