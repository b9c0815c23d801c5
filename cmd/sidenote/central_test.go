package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// written puts a text into a file of its own and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// edgeConfig is the configuration of a Sidenote whose only base is on another one.
func edgeConfig(t *testing.T, upstream, central, token, deadline string) string {
	t.Helper()
	return written(t, "edge.yaml", fmt.Sprintf(`
upstream: %s/v1
upstreams:
  central: {base_url: %s, api_key: {file: %s}}
knowledge:
  hr: {engine: vector_store, upstream: central, id: handbook}
policies:
  default: {retrieval: {deadline: %s}}
`, upstream, central, token, deadline))
}

// newCentral starts a Sidenote that others search, with a token on its admin port.
func newCentral(t *testing.T) (p *process, token string) {
	t.Helper()
	token = written(t, "token", "s3cret")
	config := written(t, "central.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %s}\nadmin: {token: {file: %s}}\n",
		newRecorder(t).URL, handbook(t), token))
	return serve(t, "--config", config), token
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	body := answered(t, resp, err)
	return resp.StatusCode, body
}

// A Sidenote can search another one as if the documents were its own.
func TestCentralSidenote(t *testing.T) {
	central, token := newCentral(t)
	up := newRecorder(t)
	config := edgeConfig(t, up.URL, central.admin, token, "5s")
	edge := serve(t, "--config", config)
	if text := edge.out.until(t, "vector store handbook"); strings.Contains(text, "/v1/chat/completions → "+central.admin) {
		t.Errorf("says that requests go to the other Sidenote: %s", text)
	}
	var sent []byte
	sdk := sdkClient(edge, &sent)
	for _, hit := range []string{"cache=miss", "cache=hit"} {
		var resp *http.Response
		if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), option.WithResponseInto(&resp)); err != nil {
			t.Fatal(err)
		}
		sources := injectedInto(t, sent, up.last(t).body)
		if len(sources) != 1 || sources[0].Doc != "leave.md" || !strings.Contains(sources[0].Body, "16 weeks") || sources[0].Section != "Parental leave" || sources[0].Name != "Leave policy" {
			t.Errorf("sources %+v", sources)
		}
		if s := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(s, "injected; sources=1; ") || !strings.Contains(s, hit) {
			t.Errorf("Sidenote-Status: %s, want %s", s, hit)
		}
		if s := resp.Header.Get("Sidenote-Sources"); s != `"1";kb="hr";doc="leave.md";name="Leave policy";section="Parental leave"` {
			t.Errorf("Sidenote-Sources: %s", s)
		}
		if got := up.last(t); got.header.Get("Authorization") != "Bearer sk-test" || bytes.Contains(got.body, []byte("s3cret")) {
			t.Errorf("sent up with %q", got.header.Get("Authorization"))
		}
	}
	if code, body := get(t, edge.admin+"/readyz"); code != 200 || body != `{"status":"ready"}` {
		t.Errorf("readyz: %d, %s", code, body)
	}
	_, metrics := get(t, edge.admin+"/metrics")
	for _, line := range []string{
		`sidenote_knowledge_searches_total{knowledge="hr",result="ok"} 1`, `sidenote_knowledge_documents{knowledge="hr"} 2`,
		`sidenote_cache_requests_total{cache="candidates",result="miss",tier="memory"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	// Its own admin port also lists the base as a store, but not its files.
	stores := adminClient(edge)
	page, err := stores.VectorStores.Search(t.Context(), "hr", searchFor("parental leave"))
	if err != nil || len(page.Data) == 0 || page.Data[0].FileID != "leave.md" {
		t.Errorf("%v, %v", page, err)
	}
	if s, err := stores.VectorStores.Get(t.Context(), "hr"); err != nil || s.FileCounts.Completed != 2 {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := stores.VectorStores.Files.List(t.Context(), "hr", openai.VectorStoreFileListParams{}); err == nil || !strings.Contains(err.Error(), "501") {
		t.Errorf("files: %v", err)
	}
	// The command finds the same sources, and says why the others are excluded.
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"search", "parental leave", "--config", config, "--explain"}, strings.NewReader(""), &out, &errs, func(string) (string, bool) { return "", false })
	if code != exitDone || !strings.Contains(out.String(), " hr/leave.md#0  Leave policy > Parental leave\n") {
		t.Errorf("search: %d, %s%s", code, out.String(), errs.String())
	}
}

// Chunks on another Sidenote are read under the local filters, also with OpenAI's SDK.
func TestReadsOfCentralSidenote(t *testing.T) {
	central, token := newCentral(t)
	edge := serve(t, "--config", edgeConfig(t, newRecorder(t).URL, central.admin, token, "5s"))
	edge.out.until(t, "vector store handbook")
	tool := func(p *process, bearer, name, arguments string) string {
		t.Helper()
		_, body := posted(t, p.admin+"/v1/tools/"+name, bearer, arguments)
		return body
	}
	found := tool(edge, "", "search_knowledge", `{"query":"parental leave weeks"}`)
	ref, _, _ := strings.Cut(strings.TrimPrefix(found, `{"hits":[{"ref_id":"`), `"`)
	if !strings.HasPrefix(ref, "hr:leave.md:") {
		t.Fatal(found)
	}
	here := tool(edge, "", "read_knowledge", fmt.Sprintf(`{"refs":[%q,"hr:nothere.md:0","hr:../../../healthz:0"]}`, ref))
	there := tool(central, "s3cret", "read_knowledge", fmt.Sprintf(`{"refs":[%q,"handbook:nothere.md:0","handbook:../../../healthz:0"]}`, strings.Replace(ref, "hr:", "handbook:", 1)))
	if here != strings.ReplaceAll(strings.ReplaceAll(there, "handbook:", "hr:"), `kb_id=\"handbook\"`, `kb_id=\"hr\"`) || !strings.Contains(here, "16 weeks") || !strings.Contains(here, `"not_found":["hr:nothere.md:0","hr:../../../healthz:0"]`) {
		t.Errorf("here %s\nthere %s", here, there)
	}
	if got := tool(edge, "", "recall", `{"query":"parental leave weeks","file_paths":["leave.md","nothere.md"]}`); !strings.Contains(got, "16 weeks") || !strings.Contains(got, `"not_found":["nothere.md"]`) {
		t.Errorf("recall: %s", got)
	}
	sdk := adminClient(central, option.WithAPIKey("s3cret"))
	page, err := sdk.VectorStores.Files.Content(t.Context(), "handbook", "leave.md")
	if err != nil || len(page.Data) == 0 || page.Data[0].Type != "text" || page.Data[0].Text == "" {
		t.Errorf("%+v, %v", page, err)
	}
	central.stop()
	if got := tool(edge, "", "read_knowledge", fmt.Sprintf(`{"refs":[%q]}`, ref)); !strings.Contains(got, "The search failed.") {
		t.Errorf("gone: %s", got)
	}
}

// Without the other Sidenote requests continue, and the status says what is missing.
func TestCentralSidenoteIsGone(t *testing.T) {
	central, token := newCentral(t)
	up := newRecorder(t)
	edge := serve(t, "--config", edgeConfig(t, up.URL, central.admin, token, "5s"))
	central.stop()
	var sent []byte
	sdk := sdkClient(edge, &sent)
	var resp *http.Response
	if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), option.WithResponseInto(&resp)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(up.last(t).body, sent) || !strings.HasPrefix(resp.Header.Get("Sidenote-Status"), "untouched; reason=retrieval-error") {
		t.Errorf("%s: %s", resp.Header.Get("Sidenote-Status"), up.last(t).body)
	}
	host := strings.TrimPrefix(central.admin, "http://")
	if code, body := get(t, edge.admin+"/readyz"); code != 200 || !strings.Contains(body, `"status":"degraded"`) || !strings.Contains(body, "knowledge hr: vector store handbook at "+host+": dial: connect: connection refused") {
		t.Errorf("readyz: %d, %s", code, body)
	}
	edge.out.until(t, "knowledge hr: vector store handbook at "+host)
}

// The token of the other Sidenote is sent there and nowhere else: a wrong one is reported, and
// redirects are not followed.
func TestCentralSidenoteRefuses(t *testing.T) {
	canary := newRecorder(t)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, canary.URL+r.URL.Path, http.StatusPermanentRedirect)
	}))
	defer away.Close()
	central, _ := newCentral(t)
	wrong := written(t, "token", "wr0ng")
	for url, want := range map[string]string{central.admin: "answered 401 (invalid_api_key)", away.URL: "answered 308 (redirects are not followed)"} {
		up := newRecorder(t)
		edge := serve(t, "--config", edgeConfig(t, up.URL, url, wrong, "5s"))
		var sent []byte
		sdk := sdkClient(edge, &sent)
		if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o")); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(up.last(t).body, sent) {
			t.Errorf("%s: %s", want, up.last(t).body)
		}
		if _, body := get(t, edge.admin+"/readyz"); !strings.Contains(body, want) || strings.Contains(body, "wr0ng") {
			t.Errorf("readyz: %s, want %s", body, want)
		}
	}
	if canary.count() != 0 {
		t.Errorf("%d requests followed a redirect", canary.count())
	}
}

// An answer after the deadline is not waited for; its result is cached for the next request.
func TestCentralSidenoteIsSlow(t *testing.T) {
	central, token := newCentral(t)
	target, err := url.Parse(central.admin)
	if err != nil {
		t.Fatal(err)
	}
	let := make(chan struct{})
	front := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		// net/http fails if a body is read past its end while the answer is written, so it gets a
		// body that was read already.
		if body, err := io.ReadAll(r.In.Body); err == nil { // else the client has left
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		}
	}}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-let
		}
		front.ServeHTTP(w, r)
	}))
	defer slow.Close()
	up := newRecorder(t)
	edge := serve(t, "--config", edgeConfig(t, up.URL, slow.URL, token, "300ms"))
	var sent []byte
	sdk := sdkClient(edge, &sent)
	status := func() string {
		var resp *http.Response
		if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), option.WithResponseInto(&resp)); err != nil {
			t.Fatal(err)
		}
		return resp.Header.Get("Sidenote-Status")
	}
	if s := status(); !strings.HasPrefix(s, "untouched; reason=retrieval-timeout") || !bytes.Equal(up.last(t).body, sent) {
		t.Errorf("Sidenote-Status: %s", s)
	}
	close(let)
	const landed = `sidenote_knowledge_searches_total{knowledge="hr",result="ok"} 1`
	for body := ""; !strings.Contains(body, landed) && t.Context().Err() == nil; {
		_, body = get(t, edge.admin+"/metrics")
	}
	if s := status(); !strings.HasPrefix(s, "injected; sources=1") {
		t.Errorf("after the late answer: %s", s)
	}
}
