package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// A filteredLibrary is a Library of two bases: kb1, which applies filters, and far, which does not
// list its files.
type filteredLibrary struct{ files []explain.KnowledgeFile }

func (d filteredLibrary) Store(id string) (explain.Store, bool) {
	switch id {
	case "kb1":
		return explain.Store{Generation: "0a", Files: len(d.files), Bytes: 30, File: func(i int) explain.KnowledgeFile { return d.files[i] }}, true
	case "far":
		return explain.Store{Generation: "0b", Files: 3, Bytes: 30}, true
	}
	return explain.Store{}, false
}

func (d filteredLibrary) Candidates(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	res := retrieval.Result{Bases: []retrieval.Ref{{Knowledge: q.Bases[0].Knowledge, Generation: "0a"}}}
	for i, f := range d.files {
		if q.Filter.Match(f.Attributes) || q.Text == "before" { // "before": found in the previous content of the base
			res.Sources = append(res.Sources, retrieval.Source{Knowledge: "kb1", Doc: f.ID, Name: f.Name, Text: "x", Score: float64(9 - i)})
		}
	}
	return res, nil
}

// startFiltered starts an admin port whose tenant acme may only see public documents. It returns
// its address and the queries of its searches.
func startFiltered(t *testing.T) (url string, asked *[]retrieval.Query) {
	t.Helper()
	d := filteredLibrary{files: []explain.KnowledgeFile{
		{ID: "a.md", Name: "A", Chunks: 1, Bytes: 5, Attributes: map[string]any{"audience": "public", "year": 2023.0, "sidenote_name": "not mine"}},
		{ID: "b.md", Name: "B", Chunks: 1, Bytes: 10, Attributes: map[string]any{"audience": "staff", "year": 2024.0}},
		{ID: "c.md", Name: "C", Chunks: 1, Bytes: 15, Attributes: map[string]any{"audience": "public", "year": 2024.0, "tags": []string{"x", "y"}}},
	}}
	asked = new([]retrieval.Query)
	h := handler(func(h *admin.Handler) {
		p := &tenant.Policy{Tenant: "acme", Rewrite: rewrite.DefaultPolicy()}
		p.Rewrite.Tenant, p.Rewrite.Knowledge = "acme", []string{"kb1", "far"}
		p.Rewrite.Filter = &filter.Filter{Type: filter.Eq, Key: "audience", Value: "public"}
		h.Tenants = tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{{SHA256: [32]byte{1}, Policy: p}}})
		h.Library, h.Lookup.Bases = d, func() []string { return []string{"kb1", "far"} }
		h.Rewriter.Retriever = retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
			*asked = append(*asked, q)
			return d.Candidates(ctx, q)
		})
	})
	return listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))), asked
}

const recent = `{"type":"gte","key":"year","value":2024}`

// Searches apply the tenant's filter and the request's.
func TestSearchesAreFiltered(t *testing.T) {
	url, _ := startFiltered(t)
	f := func(path, body string, want ...string) {
		t.Helper()
		code, got := call(t, "POST", url+path, body)
		var found []string
		for _, id := range []string{"a.md", "b.md", "c.md"} {
			if strings.Contains(got, `"`+id+`"`) {
				found = append(found, id)
			}
		}
		if code != 200 || !slices.Equal(found, want) {
			t.Errorf("%s %s: %d, %q, want %q", path, body, code, found, want)
		}
	}
	for _, path := range []string{"/v1/search", "/v1/vector_stores/kb1/search"} {
		f(path, `{"query":"x"}`, "a.md", "b.md", "c.md")
		f(path, `{"query":"x","filters":`+recent+`}`, "b.md", "c.md")
		f(path+"?tenant=acme", `{"query":"x"}`, "a.md", "c.md")
		f(path+"?tenant=acme", `{"query":"x","filters":{}}`, "a.md", "c.md")
		f(path+"?tenant=acme", `{"query":"x","filters":`+recent+`}`, "c.md")
		f(path+"?tenant=acme", `{"query":"x","filters":{"type":"ne","key":"audience","value":"public"}}`)
	}
	// A document whose attributes have changed and no longer match is not shown.
	f("/v1/vector_stores/kb1/search?tenant=acme", `{"query":"before"}`, "a.md", "c.md")
	f("/v1/vector_stores/far/search?tenant=acme", `{"query":"x"}`, "a.md", "c.md")
}

// A dry run applies the policy's filter and the request's, and shows both.
func TestDryRunIsFiltered(t *testing.T) {
	url, asked := startFiltered(t)
	body := strings.Replace(chatBody, "{", `{"sidenote":{"filters":`+recent+`},`, 1)
	const both = `{"type":"and","filters":[{"type":"eq","key":"audience","value":"public"},` + recent + `]}`
	code, got := call(t, "POST", url+"/v1/rewrite?tenant=acme", body)
	if code != 200 || !strings.Contains(got, `"filters":`+both) || len(*asked) != 1 || (*asked)[0].Filter.String() != both {
		t.Errorf("%d, %s, asked %v", code, got, *asked)
	}
	code, got = call(t, "POST", url+"/v1/rewrite?tenant=acme", strings.Replace(body, "gte", "like", 1))
	if code != 400 || !strings.Contains(got, `"param":"sidenote.filters.type"`) || !strings.Contains(got, `\"like\" is none of`) {
		t.Errorf("%d, %s", code, got)
	}
}

// For a tenant, documents outside of its filter do not exist.
func TestFilesAreFiltered(t *testing.T) {
	url, _ := startFiltered(t)
	f := func(path string, status int, want string) {
		t.Helper()
		code, got := call(t, "GET", url+"/v1/vector_stores"+path, "")
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s: %d, %s; want %d, %s", path, code, got, status, want)
		}
	}
	counts := func(n int) string {
		return fmt.Sprintf(`"file_counts":{"in_progress":0,"completed":%d,"failed":0,"cancelled":0,"total":%d}`, n, n)
	}
	f("/kb1", 200, `"usage_bytes":30,`+counts(3))
	f("/kb1?tenant=acme", 200, `"usage_bytes":20,`+counts(2))
	f("?tenant=acme", 200, `"usage_bytes":20,`+counts(2))
	f("/kb1/files/a.md", 200, `"attributes":{"audience":"public","sidenote_chunks":1,"sidenote_name":"A","year":2023}`)
	f("/kb1/files/c.md?tenant=acme", 200, `"tags":["x","y"]`)
	f("/kb1/files/b.md", 200, `"audience":"staff"`)
	_, missing := call(t, "GET", url+"/v1/vector_stores/kb1/files/zz.md?tenant=acme", "")
	f("/kb1/files/b.md?tenant=acme", 404, strings.ReplaceAll(missing, "zz.md", "b.md"))
	f("/kb1/files?tenant=acme&order=asc", 200, `"first_id":"a.md","last_id":"c.md","has_more":false`)
	f("/kb1/files?tenant=acme&order=asc&after=b.md", 200, `"first_id":"c.md","last_id":"c.md","has_more":false`)
	f("/kb1/files?tenant=acme&limit=1&order=asc", 200, `"first_id":"a.md","last_id":"a.md","has_more":true`)
	f("/far?tenant=acme", 200, counts(3))
	f("/far/files?tenant=acme", 501, `"code":"not_listed"`)
}
