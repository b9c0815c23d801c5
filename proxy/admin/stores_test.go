package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
)

// twoStores is a Library of two bases: kb1 with some files, and kb2, which is still being indexed.
type twoStores struct {
	files []string // sorted
	asked []retrieval.Query
}

func (s *twoStores) Store(id string) (explain.Store, bool) {
	switch id {
	case "kb1":
		return explain.Store{
			Generation: "0a", Created: time.Unix(100, 0), Changed: time.Unix(200, 0), Files: len(s.files), Bytes: 7,
			File: func(i int) explain.KnowledgeFile {
				return explain.KnowledgeFile{ID: s.files[i], Name: "N", Chunks: 2, Bytes: 5}
			},
		}, true
	case "kb2":
		return explain.Store{Created: time.Unix(100, 0)}, true
	case "far":
		return explain.Store{Generation: "0b", Created: time.Unix(100, 0), Files: 3}, true
	}
	return explain.Store{}, false
}

func (s *twoStores) Candidates(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	s.asked = append(s.asked, q)
	id := q.Bases[0].Knowledge
	if id == "kb2" {
		return retrieval.Result{Reason: retrieval.ReasonIndexing}, retrieval.ErrUnavailable
	}
	src := func(doc string, chunk int, score float64) retrieval.Source {
		return retrieval.Source{Type: "rag", Knowledge: id, Doc: doc, Chunk: chunk, Name: "A", Section: "S", Text: "</source>", Score: score}
	}
	res := retrieval.Result{Bases: []retrieval.Ref{{Knowledge: id, Generation: "0a"}}, Floor: 2}
	switch q.Text {
	case "one":
		res.Sources = []retrieval.Source{src("a/b.md", 1, 6), src("a/b.md", 0, 2), src("c.md", 0, 1)}
	case "two":
		res.Sources = []retrieval.Source{src("c.md", 0, 14), src("a/b.md", 1, 1)}
	}
	return res, nil
}

func stores(t *testing.T, s *twoStores) string {
	h := handler(func(h *admin.Handler) {
		h.Library, h.Lookup.Bases = s, func() []string { return []string{"kb1", "kb2", "far"} }
	})
	return listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
}

// manyParts is a reader of documents with 2,001 chunks.
type manyParts struct{}

func (manyParts) Passage(_ context.Context, q retrieval.Query, p retrieval.Passage) (list []retrieval.Source, err error) {
	if p.First > 2000 || len(q.Bases) != 1 || q.Bases[0].Knowledge != p.Knowledge {
		return nil, retrieval.ErrNoHit
	}
	for i := p.First; i < min(p.End, 2001); i++ {
		list = append(list, retrieval.Source{Knowledge: p.Knowledge, Doc: p.Doc, Chunk: i, Section: []string{"S", ""}[i%2], Text: fmt.Sprint(i)})
	}
	return list, nil
}

// The content of a document has a part for each chunk, page by page.
func TestStoreContent(t *testing.T) {
	s := &twoStores{files: []string{"a/b.md", "content", "x/content"}}
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		h.Library, h.Lookup.Bases = s, func() []string { return []string{"kb1", "far"} }
		h.Tools = &tools.Box{Knowledge: tools.Knowledge{Reader: manyParts{}}}
	}).Handle, slog.New(slog.DiscardHandler)))
	for _, row := range []struct {
		path   string
		status int
		first  string
		last   string
	}{
		{"kb1/files/a%2Fb.md/content", 200, `{"object":"vector_store.file_content.page","data":[{"type":"text","text":"0","sidenote_section":"S"},{"type":"text","text":"1"},`, `{"type":"text","text":"999"}],"has_more":true,"next_page":"1000"}`},
		{"kb1/files/a/b.md/content?page=2000", 200, `{"object":"vector_store.file_content.page","data":[{"type":"text","text":"2000","sidenote_section":"S"}]`, `"has_more":false,"next_page":null}`},
		{"kb1/files/a%2Fb.md/content?page=2001", 200, `{"object":"vector_store.file_content.page","data":[]`, `"has_more":false,"next_page":null}`},
		{"kb1/files/a%2Fb.md/content?page=-1", 400, `{"error":`, `"param":"page","code":"invalid_option"}}`},
		{"kb1/files/a%2Fb.md/content?page=9223372036854775807", 400, `{"error":`, `}}`},
		{"kb1/files/content", 200, `{"id":"content","object":"vector_store.file"`, `}`},
		{"kb1/files/x/content", 200, `{"id":"x/content","object":"vector_store.file"`, `}`},
		{"kb1/files/nothere/content", 404, `{"error":`, `}}`},
		{"far/files/a/content", 501, `{"error":`, `}}`},
		{"nothere/files/a%2Fb.md/content", 404, `{"error":`, `}}`},
	} {
		code, got := call(t, "GET", url+"/v1/vector_stores/"+row.path, "")
		if code != row.status || !strings.HasPrefix(got, row.first) || !strings.HasSuffix(strings.TrimSpace(got), row.last) {
			t.Errorf("%s: %d %.200s", row.path, code, got)
		}
	}
}

func TestStoreSearch(t *testing.T) {
	s := &twoStores{}
	url := stores(t, s)
	f := func(path, body string, status int, want string) {
		t.Helper()
		code, got := call(t, "POST", url+"/v1/vector_stores/"+path, body)
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s %s: %d, %s; want %d, %s", path, body, code, got, status, want)
		}
	}
	const one = `{"file_id":"a/b.md","filename":"a/b.md","score":0.75,"attributes":{"sidenote_chunk":1,"sidenote_floor":2,"sidenote_generation":"0a","sidenote_name":"A","sidenote_section":"S"},"content":[{"type":"text","text":"\u003c/source\u003e"}]}`
	f("kb1/search", `{"query":"one","filters":null,"max_num_results":1}`, 200,
		`{"object":"vector_store.search_results.page","search_query":["one"],"data":[`+one+`],"has_more":false,"next_page":null}`)
	f("kb1/search", `{"query":["one","two"],"filters":{},"ranking_options":{"ranker":"default-2024-11-15","score_threshold":0.5},"rewrite_query":true}`, 200, `"data":[{"file_id":"c.md","filename":"c.md","score":0.875,`)
	var p struct{ Data []json.RawMessage }
	if _, body := call(t, "POST", url+"/v1/vector_stores/kb1/search", `{"query":["one","two"]}`); json.Unmarshal([]byte(body), &p) != nil || len(p.Data) != 3 {
		t.Errorf("each chunk once: %s", body)
	}
	if q := s.asked[0]; q.Tenant != "" || q.Settings.NumCandidates != 1 || !slices.Equal(q.Bases, []retrieval.Ref{{Knowledge: "kb1"}}) {
		t.Errorf("asked %+v", q)
	}
	f("kb1/search?tenant=acme", `{"query":"one"}`, 200, one)
	if q := s.asked[len(s.asked)-1]; q.Tenant != "acme" || q.Settings.NumCandidates != 10 {
		t.Errorf("asked %+v", q)
	}
	f("far/search?tenant=acme", `{"query":"one"}`, 404, `No vector store found with id \"far\"; there are kb1.`)
	f("kb1/search?tenant=nobody", `{"query":"one"}`, 400, `"param":"tenant"`)
	f("kb9/search", `{"query":"one"}`, 404, `"code":"not_found"`)
	f("kb2/search", `{"query":"one"}`, 503, `"code":"sources_unavailable"`)
	f("kb1/search", `{"query":"one","filters":[ ]}`, 400, `"param":"filters"`)
	f("kb1/search", `{"query":"one","filters":{"type":"and","filters":[{"type":"eq","key":"a"}]}}`, 400, `"message":"filters.filters[0].value: is missing.","type":"invalid_request_error","param":"filters.filters[0].value"`)
	f("kb1/search", `{"query":"one","filter":{}}`, 400, `unknown field \"filter\"`)
	f("kb1/search", `{"query":"one","ranking_options":{"score_threshold":1.5}}`, 400, `"param":"ranking_options.score_threshold"`)
	f("kb1/search", `{"query":"one","max_num_results":51}`, 400, `"param":"max_num_results"`)
	f("kb1/search", `{"query":"one","max_num_results":0}`, 400, `"param":"max_num_results"`)
	f("kb1/search", `{"query":" "}`, 400, `"param":"query"`)
	f("kb1/search", `{"query":[]}`, 400, `"param":"query"`)
	f("kb1/search", `{"query":["one",""]}`, 400, `"param":"query"`)
	f("kb1/search", `{}`, 400, `"param":"query"`)
	f("kb1/search", `{"query":7}`, 400, "query is neither a string nor a list of strings")
	f("kb1/search", `{"query":"one"}x`, 400, "not_json")
}

func TestStoreObjects(t *testing.T) {
	url := stores(t, &twoStores{files: []string{"a b.md", "a/b.md", "c%.md"}})
	f := func(path string, status int, want string) {
		t.Helper()
		code, got := call(t, "GET", url+"/v1/vector_stores"+path, "")
		if code != status || !strings.Contains(got, want) {
			t.Errorf("%s: %d, %s; want %d, %s", path, code, got, status, want)
		}
	}
	const kb1 = `{"id":"kb1","object":"vector_store","created_at":100,"name":"kb1","usage_bytes":7,"file_counts":{"in_progress":0,"completed":3,"failed":0,"cancelled":0,"total":3},"status":"completed","expires_after":null,"expires_at":null,"last_active_at":200,"metadata":{"sidenote_generation":"0a"}}`
	f("/kb1", 200, kb1)
	f("/kb2", 200, `"status":"in_progress"`)
	f("", 200, `{"object":"list","data":[{"id":"kb2"`)
	f("?order=asc&after=far", 200, `{"object":"list","data":[`+kb1+`,{"id":"kb2",`)
	f("/?tenant=acme", 200, `{"object":"list","data":[`+kb1+`],"first_id":"kb1","last_id":"kb1","has_more":false}`)
	f("?limit=0", 400, `"param":"limit"`)
	f("?limit=x", 400, `"param":"limit"`)
	f("?order=up", 400, `"param":"order"`)

	const file = `{"id":"a/b.md","object":"vector_store.file","usage_bytes":5,"created_at":200,"vector_store_id":"kb1","status":"completed","last_error":null,"attributes":{"sidenote_chunks":2,"sidenote_name":"N"},"chunking_strategy":{"type":"other"}}`
	f("/kb1/files/a%2Fb.md", 200, file)
	f("/kb1/files/a/b.md", 200, file)
	f("/kb1/files/c%25.md", 200, `"id":"c%.md"`)
	f("/kb1/files/zz", 404, `No file found with id \"zz\" in vector store \"kb1\".`)
	f("/kb1/files?limit=1&order=asc", 200, `"first_id":"a b.md","last_id":"a b.md","has_more":true}`)
	f("/kb1/files?filter=failed", 200, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`)
	f("/kb1/files?filter=x", 400, `"param":"filter"`)
	f("/kb2/files", 200, `"data":[]`)
	f("/far/files", 501, `"code":"not_listed"`)
	f("/far/files/x", 501, `"code":"not_listed"`)
	f("/kb1/nothing", 404, "There is nothing at")
	f("/kb1/search", 405, "takes POST")
	f("s", 404, "There is nothing at")
	if code, body := call(t, "POST", url+"/v1/vector_stores", "{}"); code != 405 {
		t.Errorf("making a store: %d, %s", code, body)
	}
}

// Each of these endpoints needs the token.
func TestStoresWantTheToken(t *testing.T) {
	h := handler(func(h *admin.Handler) { h.Library, h.Token = &twoStores{}, proxy.NewSecret("s3cret") })
	url := listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
	for _, path := range []string{"", "/kb1", "/kb9", "/kb1/files", "/kb1/files/x"} {
		if code, body := call(t, "GET", url+"/v1/vector_stores"+path, ""); code != 401 {
			t.Errorf("%s: %d, %s", path, code, body)
		}
	}
	if code, _ := call(t, "POST", url+"/v1/vector_stores/kb1/search", "{}"); code != 401 {
		t.Errorf("search: %d", code)
	}
	if code, body := call(t, "GET", url+"/v1/vector_stores/kb1", "", "Authorization: Bearer s3cret"); code != 200 {
		t.Errorf("with it: %d, %s", code, body)
	}
}

// Paging through a list shows each file once, in either order, forwards and backwards.
func TestPages(t *testing.T) {
	s := &twoStores{}
	url := stores(t, s)
	type page struct {
		Data    []struct{ ID string }
		FirstID string `json:"first_id"`
		LastID  string `json:"last_id"`
		HasMore bool   `json:"has_more"`
	}
	rapid.Check(t, func(r *rapid.T) {
		n, limit := rapid.IntRange(0, 12).Draw(r, "files"), rapid.IntRange(1, 5).Draw(r, "limit")
		order := rapid.SampledFrom([]string{"asc", "desc"}).Draw(r, "order")
		s.files = nil
		for i := range n {
			s.files = append(s.files, fmt.Sprintf("f%02d", i))
		}
		want := slices.Clone(s.files)
		if order == "desc" {
			slices.Reverse(want)
		}
		get := func(cursor string) (p page, ids []string) {
			_, body := call(t, "GET", fmt.Sprintf("%s/v1/vector_stores/kb1/files?limit=%d&order=%s&%s", url, limit, order, cursor), "")
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				r.Fatalf("%v: %s", err, body)
			}
			for _, d := range p.Data {
				ids = append(ids, d.ID)
			}
			return p, ids
		}
		var got []string
		p, ids := get("")
		for got = ids; p.HasMore; got = append(got, ids...) {
			p, ids = get("after=" + p.LastID)
		}
		if !slices.Equal(got, want) {
			r.Fatalf("got %q, want %q", got, want)
		}
		if n > 0 {
			_, back := get("before=" + want[n-1])
			if !slices.Equal(back, want[max(0, n-1-limit):n-1]) {
				r.Fatalf("before %s: %q", want[n-1], back)
			}
		}
	})
}
