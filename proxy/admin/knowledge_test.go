package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
)

// A fakeManager is a Manager of the bases kb1, with documents of these ids, and kb2.
type fakeManager struct {
	ids   []string // sorted
	put   []admin.NewDocument
	files []admin.NewFile
	err   error // returned by all methods that change something
}

func (c *fakeManager) Bases(context.Context) ([]explain.Base, error) {
	report := &explain.IngestReport{SkippedTotal: 150, Skipped: make([]explain.Skipped, 150), RemovedDocuments: []string{}}
	return []explain.Base{{ID: "kb1", Documents: len(c.ids), Ingest: &explain.Ingest{Report: report}}, {ID: "kb2"}}, nil
}

func (c *fakeManager) Base(ctx context.Context, id string) (explain.Base, error) {
	all, _ := c.Bases(ctx)
	for _, b := range all {
		if b.ID == id {
			return b, nil
		}
	}
	return explain.Base{}, &admin.Refusal{Status: 404, Code: "not_found", Message: "There is no " + id}
}

func (c *fakeManager) CreateBase(_ context.Context, id string) (bool, error) {
	return id == "kb2", c.err
}
func (c *fakeManager) DeleteBase(context.Context, string) error     { return c.err }
func (c *fakeManager) Remove(context.Context, string, string) error { return c.err }

// Ingest returns 8 if deletions are accepted.
func (c *fakeManager) Ingest(_ context.Context, _ string, acceptDeletions bool) (int, error) {
	if acceptDeletions {
		return 8, c.err
	}
	return 7, c.err
}

func (c *fakeManager) Documents(context.Context, string) (admin.Contents, error) {
	return admin.Contents{
		Len: len(c.ids), ID: func(i int) string { return c.ids[i] },
		Describe: func(_ context.Context, at []int) (out []admin.Document, err error) {
			for _, i := range at {
				out = append(out, admin.Document{ID: c.ids[i]})
			}
			return out, nil
		},
	}, nil
}

func (c *fakeManager) Document(_ context.Context, base, id string) (admin.Document, error) {
	return admin.Document{ID: id, Knowledge: base, Content: []admin.Chunk{{Text: "t"}}}, nil
}

func (c *fakeManager) Put(_ context.Context, base string, documents []admin.NewDocument) (out []admin.Written, err error) {
	c.put = documents
	for i, d := range documents {
		out = append(out, admin.Written{ID: d.ID, Knowledge: base, Created: i == 0, Changed: true})
	}
	return out, c.err
}

func (c *fakeManager) PutFile(_ context.Context, base string, f admin.NewFile) (admin.WrittenFile, error) {
	if strings.HasSuffix(f.Name, ".png") {
		return admin.WrittenFile{}, admin.Refuse(415, "file_unsupported", "%s is not read.", f.Name)
	}
	c.files = append(c.files, f)
	return admin.WrittenFile{File: f.Name, Knowledge: base, Documents: 1, Created: 1, Changed: 1}, c.err
}

func startManager(t *testing.T, c *fakeManager) string {
	h := handler(func(h *admin.Handler) { h.Manager, h.Token = c, proxy.NewSecret("tok") })
	return listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
}

// manage is like call, with the headers that a write needs.
func manage(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	return call(t, method, url, body, "Authorization: Bearer tok", "Content-Type: application/json")
}

func TestKnowledge(t *testing.T) {
	c := &fakeManager{ids: []string{"a.md", "b/c.md", "d.md"}}
	url := startManager(t, c)
	f := func(method, path, body string, status int, want string) {
		t.Helper()
		code, got := manage(t, method, url+"/v1/knowledge"+path, body)
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s %s %s: %d, %s; want %d, %s", method, path, body, code, got, status, want)
		}
	}
	f("GET", "?order=asc", "", 200, `"first_id":"kb1","last_id":"kb2","has_more":false`)
	f("GET", "/?limit=1", "", 200, `"last_id":"kb2","has_more":true`)
	f("GET", "?tenant=acme", "", 400, `"param":"tenant"`)
	f("GET", "/kb1/documents/a?tenant=acme", "", 400, `"param":"tenant"`)
	f("POST", "?tenant=acme", `{"id":"kb1"}`, 400, `"param":"tenant"`)
	f("GET", "/kb9", "", 404, `"message":"There is no kb9"`)
	f("GET", "/kb1?report=some", "", 400, `"param":"report"`)
	for path, n := range map[string]int{"/kb1": 100, "/kb1?report=full": 150} {
		if _, body := manage(t, "GET", url+"/v1/knowledge"+path, ""); strings.Count(body, `"reason"`) != n || !strings.Contains(body, `"skipped_total":150`) {
			t.Errorf("%s: %s", path, body)
		}
	}

	f("POST", "", `{"id":"kb2"}`, 201, `"id":"kb2"`)
	f("POST", "", `{"id":"kb1"}`, 200, `"id":"kb1"`)
	f("POST", "", `{"id":"Kb１"}`, 400, `write it as \"kb1\"`)
	f("POST", "", `{"id":"k b"}`, 400, `it is 1 to 64 of a-z, 0-9, _ and -`)
	f("POST", "", `{}`, 400, `"param":"id"`)
	f("POST", "", `{"id":"kb1","path":"/etc"}`, 400, `unknown field \"path\"`)
	f("POST", "", `{"id":"kb1"} {}`, 400, `something stands after it`)
	f("POST", "", "{\"id\":\"\xff\"}", 400, `it is not UTF-8`)
	f("POST", "/kb1/ingest", "", 202, `{"id":"kb1","object":"knowledge.ingest","run":7}`)
	f("POST", "/kb1/ingest", `{"path":"/etc"}`, 400, `or no body`)
	f("POST", "/kb1/ingest", `{"accept_deletions":true} x`, 400, `or no body`)
	f("POST", "/kb1/ingest", `{"accept_deletions":true}`, 202, `"run":8`)
	f("DELETE", "/kb1", "", 200, `{"id":"kb1","object":"knowledge.deleted","deleted":true}`)
	f("PUT", "/kb1", "", 405, `takes GET, DELETE`)
	f("GET", "/kb1/ingest", "", 405, `takes POST`)
	f("GET", "/kb1/files", "", 404, `"code":"not_found"`)
	f("GET", "s", "", 404, `"code":"not_found"`)
}

func TestKnowledgeDocuments(t *testing.T) {
	c := &fakeManager{ids: []string{"a.md", "b/c.md", "d.md"}}
	url := startManager(t, c)
	f := func(method, path, body string, status int, want string) {
		t.Helper()
		code, got := manage(t, method, url+"/v1/knowledge/kb1/documents"+path, body)
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s %s %.100s: %d, %s; want %d, %s", method, path, body, code, got, status, want)
		}
	}
	f("GET", "?order=asc&limit=2", "", 200, `"first_id":"a.md","last_id":"b/c.md","has_more":true`)
	f("GET", "?order=asc&after=b/c.md", "", 200, `"first_id":"d.md","last_id":"d.md","has_more":false`)
	f("GET", "?order=up", "", 400, `"param":"order"`)
	f("GET", "/b%2Fc.md", "", 200, `"id":"b/c.md"`)
	f("GET", "/b/c.md", "", 200, `"id":"b/c.md"`)
	f("GET", "/..%2Fc%20d%3F", "", 200, `"id":"../c d?"`)
	f("DELETE", "/b/c.md", "", 200, `{"id":"b/c.md","object":"knowledge.document.deleted","deleted":true}`)
	f("POST", "/b/c.md", "", 405, `takes GET, PUT, DELETE`)

	f("PUT", "/a.MD", `{"text":"x\r\ny\rz","name":"N"}`, 201, `"created":true`)
	if diff := cmp.Diff(c.put, []admin.NewDocument{{ID: "a.MD", Name: "N", Text: "x\ny\nz", Markdown: true}}); diff != "" {
		t.Errorf("put %s", diff)
	}
	f("PUT", "/a.md", `{"text":"x","attributes":{"team":"hr","tags":["a","b"],"year":2024}}`, 201, "")
	if diff := cmp.Diff(c.put[0].Attributes, map[string]any{"team": "hr", "tags": []any{"a", "b"}, "year": 2024.0}); diff != "" {
		t.Errorf("put %s", diff)
	}
	f("PUT", "/a.txt", `{"text":"x","type":"markdown","attributes":null}`, 201, "")
	if !c.put[0].Markdown {
		t.Errorf("put %+v", c.put)
	}
	f("PUT", "/a.md", `{"text":"x","type":"html"}`, 400, `"param":"type"`)
	f("PUT", "/a.md", `{"name":"x"}`, 400, `text is missing`)
	f("PUT", "/a.md", `{"text":"\u0000"}`, 400, `holds a NUL`)
	f("PUT", "/a.md", `{"text":"x","attributes":["team"]}`, 400, `attributes`)
	f("PUT", "/a.md", `{"text":"x","id":"b.md"}`, 400, `the path says \"a.md\"`)
	f("PUT", "/a%0A.md", `{"text":"x"}`, 400, `"param":"id"`)
	f("PUT", "/a.md", `{"text":"`+strings.Repeat("x", 10<<20+1)+`"}`, 413, `it may have 10485760`)
	f("PUT", "/a.md", strings.Repeat(" ", 32<<20+1), 413, `larger than 33554432 bytes`)

	f("POST", "", `{"documents":[{"id":"a","text":"x"},{"id":"b","text":""}]}`, 200, `"created":1,"changed":2`)
	f("POST", "", `{"documents":[]}`, 400, `"param":"documents"`)
	f("POST", "", `{"documents":[{"id":"a","text":"x"},{"text":"y"}]}`, 400, `"param":"documents[1].id"`)
	f("POST", "", `{"documents":[{"id":"a","text":"x"},{"id":"a","text":"y"}]}`, 400, `\"a\" comes twice`)
	f("POST", "", `{"documents":[{"id":"a","text":"x","type":"y"}]}`, 400, `"param":"documents[0].type"`)
}

// A Manager's Refusal becomes the answer, in OpenAI's form.
func TestKnowledgeRefusals(t *testing.T) {
	c := &fakeManager{err: fmt.Errorf("put: %w", &admin.Refusal{Status: 507, Code: "no_space", Message: "The disk is full.", Err: context.Canceled})}
	url := startManager(t, c)
	const want = `{"error":{"message":"The disk is full.","type":"server_error","param":null,"code":"no_space"}}`
	for _, r := range []struct{ method, path, body string }{
		{"POST", "", `{"id":"kb1"}`}, {"DELETE", "/kb1", ""}, {"POST", "/kb1/ingest", ""}, {"DELETE", "/kb1/documents/a", ""},
		{"PUT", "/kb1/documents/a", `{"text":"x"}`}, {"POST", "/kb1/documents", `{"documents":[{"id":"a","text":"x"}]}`},
	} {
		if code, body := manage(t, r.method, url+"/v1/knowledge"+r.path, r.body); code != 507 || body != want {
			t.Errorf("%s %s: %d, %s", r.method, r.path, code, body)
		}
	}
	c.err = fmt.Errorf("something else")
	if code, body := manage(t, "DELETE", url+"/v1/knowledge/kb1", ""); code != 500 || strings.Contains(body, "something") {
		t.Errorf("%d, %s", code, body)
	}
}

// Token and host name are checked on these paths as on others, and without a Manager the paths do
// not exist.
func TestKnowledgeIsGuarded(t *testing.T) {
	h := handler(func(h *admin.Handler) { h.Manager, h.Token = &fakeManager{}, proxy.NewSecret("tok") })
	url := listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))) + "/v1/knowledge"
	for want, lines := range map[int][]string{401: nil, 421: {"Host: evil.example"}, 403: {"Authorization: Bearer tok", "Origin: https://evil.example"}, 200: {"Authorization: Bearer tok"}} {
		if code, body := call(t, "GET", url, "", lines...); code != want {
			t.Errorf("%v: %d, %s", lines, code, body)
		}
	}
	bare := listen(t, admin.NewServer(handler(nil).Handle, slog.New(slog.DiscardHandler))) + "/v1/knowledge"
	if code, _ := call(t, "GET", bare, ""); code != 404 {
		t.Errorf("without a manager: %d", code)
	}
}

func (*fakeManager) Forget(_ context.Context, base string, ids []string) (admin.Forgotten, error) {
	return admin.Forgotten{Object: "knowledge.documents.forgotten", Knowledge: base, Removed: ids, Beyond: []string{}}, nil
}

func (*fakeManager) WebhookSecret(base string) string {
	if base == "forge" {
		return "canary"
	}
	return ""
}
