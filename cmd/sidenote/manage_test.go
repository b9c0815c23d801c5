package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
)

// request returns a request to the admin port with all headers that a write needs.
func (p *process) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	return req
}

// asks sends a request to the admin port, and checks the status and a part of the answer.
func (p *process) asks(t *testing.T, method, path, body string, status int, want ...string) string {
	t.Helper()
	return exchanged(t, p.request(t, method, path, body), status, want...)
}

// exchanged sends a request, and checks the status and a part of the answer.
func exchanged(t *testing.T, req *http.Request, status int, want ...string) string {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Errorf("%s %s: %d, want %d: %s", req.Method, req.URL.Path, resp.StatusCode, status, got)
	}
	for _, w := range want {
		if !strings.Contains(string(got), w) {
			t.Errorf("%s %s: no %s in %s", req.Method, req.URL.Path, w, got)
		}
	}
	return string(got)
}

// A base that is created over the admin port is searched at once, and is still there after a
// restart.
func TestManage(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "docs=" + handbook(t), "--state", state}
	p := serve(t, args...)
	p.asks(t, "GET", "/v1/knowledge/notes", "", 404, `There is no knowledge base \"notes\".`)
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/a.md", `{"text":"x"}`, 404, `There is no knowledge base \"notes\".`)
	p.asks(t, "POST", "/v1/knowledge", `{"id":"notes"}`, 201, `"id":"notes","object":"knowledge","engine":"embedded","status":"ready","documents":0`, `"configured":false,"ingest":null`)
	p.asks(t, "POST", "/v1/knowledge", `{"id":"notes"}`, 200, `"documents":0`)
	p.asks(t, "POST", "/v1/knowledge", `{"id":"docs"}`, 200, `"documents":2`)

	const text = `{"text":"# Pets\r\n\r\n## Dogs\r\n\r\nLlamas are welcome on Fridays."}`
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/house/pets.md", text, 201, `{"id":"house/pets.md","object":"knowledge.document","kb_id":"notes","created":true,"changed":true}`)
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/house%2Fpets.md", text, 200, `"created":false,"changed":false`)
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/house/pets.md", `{"text":"# Pets\n\n## Dogs\n\nAlpacas are welcome."}`, 200, `"created":false,"changed":true`)
	p.asks(t, "GET", "/v1/knowledge/notes/documents/house/pets.md", "", 200, `"name":"Pets","type":"markdown"`, `"content":[{"chunk":0,"section":"Dogs","text":"# Pets\n\n## Dogs\n\nAlpacas are welcome."}]`)
	p.asks(t, "POST", "/v1/knowledge/notes/documents", `{"documents":[{"id":"b.txt","text":"Bees sting.","name":"Bees"},{"id":"house/pets.md","text":"# Pets\n\n## Dogs\n\nAlpacas are welcome."}]}`, 200,
		`"created":1,"changed":1`, `{"id":"house/pets.md","object":"knowledge.document","kb_id":"notes","created":false,"changed":false}`)

	if docs := p.finds(t, "alpacas"); len(docs) != 1 || docs[0] != "house/pets.md" {
		t.Errorf("found %v", docs)
	}
	p.asks(t, "POST", "/v1/search", `{"query":"alpacas","knowledge":["notes"]}`, 200, `"doc_id":"house/pets.md"`)
	p.asks(t, "POST", "/v1/search?tenant=default", `{"query":"alpacas","knowledge":["notes"]}`, 400, `"param":"knowledge"`)
	sdk := adminClient(p)
	if page, err := sdk.VectorStores.Search(t.Context(), "notes", searchFor("alpacas")); err != nil || len(page.Data) != 1 {
		t.Errorf("the SDK found %+v, %v", page, err)
	}
	stores, err := sdk.VectorStores.List(t.Context(), openai.VectorStoreListParams{Order: "asc"})
	if err != nil || len(stores.Data) != 2 || stores.Data[1].ID != "notes" {
		t.Errorf("%+v, %v", stores, err)
	}
	if of := p.asks(t, "GET", "/v1/vector_stores?tenant=default", "", 200, `"id":"docs"`); strings.Contains(of, "notes") {
		t.Errorf("the tenant sees %s", of)
	}
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/c.md", `{"text":"Crows caw.","attributes":{"team":"hr","tags":["a"],"year":2024}}`, 201)
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/c.md", `{"text":"Crows caw.","attributes":{"team":"it"}}`, 200, `"changed":true`)
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/c.md", `{"text":"Crows caw.","attributes":{"team":{"of":"two"}}}`, 400, `"param":"attributes"`, "team")
	p.asks(t, "GET", "/v1/knowledge/notes/documents/c.md", "", 200, `"attributes":{"team":"it"}`)
	p.asks(t, "POST", "/v1/vector_stores/notes/search", `{"query":"crows","filters":{"type":"eq","key":"team","value":"hr"}}`, 200, `"data":[]`)
	p.asks(t, "POST", "/v1/vector_stores/notes/search", `{"query":"crows","filters":{"type":"eq","key":"team","value":"it"}}`, 200, `"file_id":"c.md"`)
	p.asks(t, "DELETE", "/v1/knowledge/notes/documents/c.md", "", 200)
	p.asks(t, "DELETE", "/v1/knowledge/notes/documents/nothing", "", 404, `has no document \"nothing\"`)
	p.asks(t, "DELETE", "/v1/knowledge/notes/documents/b.txt", "", 200, `"deleted":true`)
	p.asks(t, "GET", "/v1/knowledge/notes/documents", "", 200, `"data":[{"id":"house/pets.md"`, `"has_more":false`)
	p.stop()

	again := serve(t, args...)
	again.comes(t, "alpacas", "house/pets.md")
	again.asks(t, "DELETE", "/v1/knowledge/notes", "", 200, `"object":"knowledge.deleted"`)
	again.asks(t, "GET", "/v1/knowledge/notes", "", 404)
	if docs := again.finds(t, "alpacas"); len(docs) != 0 {
		t.Errorf("found %v", docs)
	}
	var api *openai.Error
	sdk = adminClient(again)
	if _, err := sdk.VectorStores.Search(t.Context(), "notes", searchFor("alpacas")); !errors.As(err, &api) || api.StatusCode != 404 {
		t.Errorf("the SDK searched what is gone: %v", err)
	}
}

// The admin port cannot undo what the configuration and the folder define.
func TestManageKeepsFolders(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--state", state}
	p := serve(t, append(args, "--knowledge", "docs="+docs)...)
	p.asks(t, "DELETE", "/v1/knowledge/docs", "", 409, `"code":"configured"`)
	p.asks(t, "PUT", "/v1/knowledge/docs/documents/leave.md", `{"text":"no"}`, 409, `is read from `+docs)
	p.asks(t, "DELETE", "/v1/knowledge/docs/documents/leave.md", "", 409, `"code":"from_file"`)
	p.asks(t, "GET", "/v1/knowledge/docs/documents?order=asc", "", 200, `"id":"leave.md"`, `"file":"leave.md"`)

	write(t, docs, "cars.md", "# Cars\n\nCabriolets are to be parked outside.\n")
	garbage := filepath.Join(docs, "broken.md")
	write(t, docs, "broken.md", "caf\xe9 \x00\x01")
	p.asks(t, "POST", "/v1/knowledge/docs/ingest", `{"path":"/etc"}`, 400, "the folder that the base is kept with")
	var begun admin.Accepted
	if err := json.Unmarshal([]byte(p.asks(t, "POST", "/v1/knowledge/docs/ingest", "", 202)), &begun); err != nil {
		t.Fatal(err)
	}
	b := p.reads(t, "docs", begun.Run)
	if r := b.Ingest.Report; r.Files != 3 || r.SkippedTotal != 1 || r.Skipped[0].Path != filepath.Base(garbage) || b.Documents != 3 || b.Path != docs {
		t.Errorf("%+v of %+v", r, b)
	}
	if b.Status != explain.StatusReady && b.Status != explain.StatusIngesting { // the folder is watched, too
		t.Errorf("status %s", b.Status)
	}
	p.comes(t, "cabriolets", "cars.md")
	p.asks(t, "POST", "/v1/knowledge", `{"id":"bare"}`, 201)
	p.asks(t, "POST", "/v1/knowledge/bare/ingest", "", 409, `"code":"no_folder"`)

	follower := serve(t, append(args, "--knowledge", "docs", "--follow")...)
	follower.comes(t, "cabriolets", "cars.md")
	follower.asks(t, "PUT", "/v1/knowledge/docs/documents/x", `{"text":"x"}`, 409, "only follows "+state, strings.TrimPrefix(p.admin, "http://"))
	follower.asks(t, "POST", "/v1/knowledge", `{"id":"x"}`, 409, `"code":"read_only"`)
	follower.asks(t, "GET", "/v1/knowledge", "", 200, `"id":"bare"`, `"id":"docs"`)
}

// reads waits until a base was read that many times.
func (p *process) reads(t *testing.T, id string, runs int) (b explain.Base) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		if err := json.Unmarshal([]byte(p.asks(t, "GET", "/v1/knowledge/"+id, "", 200)), &b); err != nil {
			t.Fatal(err)
		}
		if b.Ingest.Runs >= runs {
			return b
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatalf("reading %d of %s never ended: %+v", runs, id, b.Ingest)
		}
	}
}

// Bases are created and deleted while others are written and searched.
func TestManageTogether(t *testing.T) {
	env := func(name string) (string, bool) { return "t0ken", name == "SIDENOTE_ADMIN_TOKEN" }
	p := serveIn(t, env, "--upstream", newRecorder(t).URL, "--knowledge", "docs="+handbook(t), "--state", ":memory:")
	p.token = "t0ken"
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			base, doc := fmt.Sprintf("/v1/knowledge/b%d", i%2), fmt.Sprintf("/documents/%d.txt", i)
			for range 3 {
				for _, r := range []struct{ method, path, body string }{
					{"POST", "/v1/knowledge", fmt.Sprintf(`{"id":"b%d"}`, i%2)},
					{"PUT", base + doc, `{"text":"Llamas are welcome on Fridays."}`},
					{"POST", "/v1/search", `{"query":"llamas or parental leave"}`},
					{"POST", fmt.Sprintf("/v1/vector_stores/b%d/search", i%2), `{"query":"llamas"}`},
					{"GET", base + "/documents", ""},
					{"POST", "/v1/knowledge/docs/ingest", ""},
					{"DELETE", base, ""},
				} {
					resp, err := http.DefaultClient.Do(p.request(t, r.method, r.path, r.body))
					if err != nil {
						t.Error(err)
						return
					}
					if resp.StatusCode == http.StatusInternalServerError || resp.StatusCode == http.StatusUnauthorized {
						text, _ := io.ReadAll(resp.Body)
						t.Errorf("%s %s: %s", r.method, r.path, text)
					}
					_ = resp.Body.Close()
				}
			}
		})
	}
	all.Wait()
	if docs := p.finds(t, "parental leave"); len(docs) != 1 || docs[0] != "leave.md" {
		t.Errorf("found %v", docs)
	}
}
