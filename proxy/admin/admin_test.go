package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock never ends, and the goroutine that cleans a server's pool
		// sleeps for ten seconds before it notices the server's end.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

const chatBody = `{ "model":"m",  "x": 1.0, "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"How long is parental leave?"}]}`

type models struct{}

func (models) Model(string) model.Model {
	return model.Model{Row: "test", Encoding: "bytes", Window: 1 << 20, Counter: counter{}}
}

type counter struct{}

func (counter) Count(s string) (int, bool) { return len(s), true }

// retrieve finds a source in each base, whose text names that base.
func retrieve(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	if q.Text == "fail" {
		return retrieval.Result{Reason: retrieval.ReasonTimeout}, retrieval.ErrUnavailable
	}
	res := retrieval.Result{Bases: q.Bases, Retrieved: 3, Unique: 2, Cache: retrieval.CacheMiss}
	said := ""
	for _, turn := range q.Previous {
		said += " after " + turn.Text
	}
	for _, b := range q.Bases {
		res.Sources = append(res.Sources, retrieval.Source{Type: "rag", Knowledge: b.Knowledge, Doc: "a.md", Name: "A", Text: "text of " + b.Knowledge + said, Score: 2, Relevance: 0.8})
	}
	res.Excluded = retrieval.NewExcludedList([]retrieval.Excluded{{Knowledge: "kb1", Doc: "b.md", Score: 1.1, Relevance: 0.1, Reason: retrieval.ExcludedScore, MinScore: 3}})
	return res, nil
}

// listen starts s and returns its address.
func listen(t *testing.T, s *admin.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func handler(change func(*admin.Handler)) *admin.Handler {
	p := &tenant.Policy{Tenant: "acme", Name: "base", Expose: report.ExposeNames, Rewrite: rewrite.DefaultPolicy()}
	p.Rewrite.Tenant, p.Rewrite.Knowledge, p.Rewrite.ContextTokens = "acme", []string{"kb1"}, 4000
	h := &admin.Handler{
		Telemetry: admin.Telemetry{Metrics: report.NewMetrics(report.MetricNames{}).Registry()},
		Rewriter:  &rewrite.Rewriter{Retriever: retrieval.Func(retrieve), Models: models{}},
		Tenants:   tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{{SHA256: [32]byte{1}, Policy: p}}}),
	}
	h.Lookup = &explain.Knowledge{Bases: func() []string { return []string{"kb1", "kb2"} }}
	if change != nil {
		change(h)
	}
	h.Lookup.Tenants, h.Lookup.Retriever, h.Lookup.Planners = h.Tenants, h.Rewriter.Retriever, h.Planners
	return h
}

// call sends a request and returns status and body.
func call(t *testing.T, method, url, body string, lines ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestDryRun(t *testing.T) {
	url := listen(t, admin.NewServer(handler(nil).Handle, slog.New(slog.DiscardHandler)))
	code, body := call(t, "POST", url+"/v1/rewrite?tenant=acme", chatBody)
	var got struct {
		Outcome string
		Status  string
		Sources string
		Mode    string
		Ledger  rewrite.Ledger
		Request json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 {
		t.Fatalf("%d, %v: %s", code, err, body)
	}
	if got.Outcome != "injected" || got.Mode != "inject" || got.Ledger.Used <= 0 || got.Sources != `"1";kb="kb1";doc="a.md";name="A"` || !strings.HasPrefix(got.Status, "injected; sources=1;") {
		t.Errorf("%s", body)
	}
	before, rest, _ := strings.Cut(string(got.Request), "Be brief.")
	if _, after, found := strings.Cut(rest, `</sources>\n`); !found || before+"Be brief."+after != chatBody {
		t.Errorf("request: %s", got.Request)
	}

	_, off := call(t, "POST", url+"/v1/rewrite?tenant=acme", chatBody, "Sidenote-Mode: off")
	if !strings.Contains(off, `"outcome":"untouched","reason":"off"`) || !strings.HasSuffix(off, `,"request":`+chatBody+"}") {
		t.Errorf("off: %s", off)
	}
}

func TestSearch(t *testing.T) {
	url := listen(t, admin.NewServer(handler(nil).Handle, slog.New(slog.DiscardHandler)))
	f := func(path, body string, status int, want string) {
		t.Helper()
		code, got := call(t, "POST", url+path, body)
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s %s: %d, %s; want %d, %s", path, body, code, got, status, want)
		}
	}
	f("/v1/search", `{"query":"leave"}`, 200, `{"object":"list","data":[{"kb_id":"kb1","doc_id":"a.md","chunk":0,"name":"A","score":2,"relevance":0.8,"text":"text of kb1"},{"kb_id":"kb2",`)
	f("/v1/search", `{"query":"leave","knowledge":["kb2"],"top_k":3}`, 200, `"data":[{"kb_id":"kb2"`)
	f("/v1/search", `{"query":"leave"}`, 200, `"excluded":[{"kb_id":"kb1","doc_id":"b.md","chunk":0,"name":"","score":1.1,"relevance":0.1,"reason":"score","detail":"score 1.1 \u003c 3.0"}]`)
	f("/v1/search?tenant=acme", `{"query":"leave"}`, 200, `"knowledge":[{"kb_id":"kb1","generation":""}]`)
	f("/v1/search?tenant=acme", `{"query":"leave","knowledge":["kb2"]}`, 400, `"param":"knowledge"`)
	f("/v1/search", `{"query":"leave","stages":true}`, 400, `"param":"stages"`)
	f("/v1/search?tenant=acme", `{"query":"leave","stages":true}`, 200, `"knowledge":[{"kb_id":"kb1","generation":""}]`) // the policy has no stages
	f("/v1/search?tenant=nobody", `{"query":"leave"}`, 400, `"param":"tenant"`)
	f("/v1/search", `{"query":"leave","knowledge":["kb9"]}`, 400, `"kb9\"; there are kb1, kb2`)
	f("/v1/search", `{"query":" "}`, 400, `"param":"query"`)
	f("/v1/search", `{"query":"x","top_k":0}`, 400, `"param":"top_k"`)
	f("/v1/search", `{"query":"why?","turns":["first","second"]}`, 200, `"text":"text of kb1 after second after first"`)
	f("/v1/search", `{"query":"why?","turns":["`+strings.Repeat("x", 40<<10)+`","`+strings.Repeat("y", 40<<10)+`"]}`, 400, `"param":"turns"`)
	f("/v1/search", `{"query":"x","top_n":1}`, 400, "top_n")
	f("/v1/search", `{"query":"x"}{}`, 400, "not_json")
	f("/v1/search", `{`, 400, "not_json")
	f("/v1/search", `{"query":"fail"}`, 503, `"code":"sources_unavailable"`)
}

// T14: each endpoint is available on its listener only, and only to callers who may use it.
func TestAccess(t *testing.T) {
	const token = "Authorization: Bearer s3cret"
	whole := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		h.Token, h.Hosts = proxy.NewSecret("s3cret"), []string{"sidenote.internal"}
	}).Handle, slog.New(slog.DiscardHandler)))
	probes := listen(t, admin.NewServer(handler(nil).Telemetry.Handle, slog.New(slog.DiscardHandler)))
	f := func(status int, method, url string, lines ...string) {
		t.Helper()
		code, body := call(t, method, url, "", lines...)
		if code != status || code >= 400 && !strings.HasPrefix(body, `{"error":{"message":"`) {
			t.Errorf("%s %s %q: %d, %s; want %d", method, url, lines, code, body, status)
		}
	}
	f(401, "GET", whole+"/metrics")
	f(401, "GET", whole+"/metrics", "Authorization: Bearer s3cre")
	f(401, "POST", whole+"/v1/rewrite", "Authorization: Basic s3cret")
	f(200, "GET", whole+"/metrics", token)
	f(200, "GET", whole+"/healthz")
	f(400, "POST", whole+"/v1/search", token) // the token is accepted, the body is not
	f(404, "GET", whole+"/v1/chat/completions", token)
	f(200, "GET", whole+"/", token)
	f(405, "GET", whole+"/v1/rewrite", token)
	f(405, "POST", whole+"/metrics", token)
	f(421, "GET", whole+"/healthz", "Host: evil.example")
	f(421, "GET", whole+"/healthz", "Host: 127.0.0.1.evil.example:80")
	f(421, "GET", whole+"/metrics", "Host: evil.example", "Authorization: Bearer s3cre")
	f(200, "GET", whole+"/metrics", "Host: central.svc:8081", token)
	f(200, "GET", whole+"/healthz", "Host: localhost:1234")
	f(200, "GET", whole+"/healthz", "Host: [::1]:80")
	f(200, "GET", whole+"/healthz", "Host: Sidenote.internal.")
	f(403, "GET", whole+"/metrics", token, "Origin: https://evil.example")
	f(403, "GET", whole+"/metrics", token, "Origin: null")
	f(403, "GET", whole+"/metrics", token, "Origin: http://203.0.113.9")
	f(403, "GET", whole+"/metrics", token, "Origin: http://[2001:db8::1]:8081")
	f(200, "GET", whole+"/metrics", token, "Origin: http://localhost:8081")
	f(200, "GET", whole+"/metrics", token, "Origin: http://[::1]:3000")
	f(200, "GET", whole+"/metrics", token, "Origin: https://sidenote.internal")
	f(200, "GET", whole+"/metrics", token, "Origin: http://203.0.113.9:8081", "Host: 203.0.113.9:8081")

	f(200, "GET", probes+"/metrics")
	f(200, "GET", probes+"/healthz", "Host: anything")
	f(404, "POST", probes+"/v1/rewrite")
	f(404, "POST", probes+"/v1/search")
}

func TestProbes(t *testing.T) {
	why := make(chan []string, 1)
	tel := admin.Telemetry{Metrics: report.NewMetrics(report.MetricNames{}).Registry(), Ready: func() []string { return <-why }}
	url := listen(t, admin.NewServer(tel.Handle, slog.New(slog.DiscardHandler)))
	why <- []string{"knowledge docs: indexing"}
	if code, body := call(t, "GET", url+"/readyz", ""); code != 503 || body != `{"reasons":["knowledge docs: indexing"],"status":"not ready"}` {
		t.Errorf("%d, %s", code, body)
	}
	why <- nil
	if code, body := call(t, "GET", url+"/readyz", ""); code != 200 || body != `{"status":"ready"}` {
		t.Errorf("%d, %s", code, body)
	}
	if _, body := call(t, "GET", url+"/metrics", ""); !strings.Contains(body, "sidenote_build_info{") || !strings.Contains(body, "go_goroutines ") {
		t.Errorf("%s", body)
	}
	if code, _ := call(t, "GET", url+"/metrics", "a body"); code != 413 {
		t.Errorf("a scrape with a body: %d", code)
	}
}

func TestBodyIsBounded(t *testing.T) {
	url := listen(t, admin.NewServer(handler(nil).Handle, slog.New(slog.DiscardHandler)))
	big := bytes.Repeat([]byte(" "), 32<<20+1)
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		fmt.Fprintf(c, "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(big))
		c.Write(big)
	}()
	answer := make([]byte, 12)
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 413" {
		t.Errorf("%s, %v", answer, err)
	}
}

// A dry run refuses models that the tenant's requests may not name.
func TestDryRunOfAnotherModel(t *testing.T) {
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) { h.Tenants.ByName("acme").Models = tenant.Models{"gpt-5*"} }).Handle, slog.New(slog.DiscardHandler)))
	for model, want := range map[string]int{"gpt-5-mini": 200, "gpt-4": 404, "": 404} {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"How long is parental leave?"}]}`, model)
		if code, got := call(t, "POST", url+"/v1/rewrite?tenant=acme", body); code != want || (code == 404) != strings.Contains(got, `"model_not_found"`) {
			t.Errorf("%q: %d %s", model, code, got)
		}
	}
}
