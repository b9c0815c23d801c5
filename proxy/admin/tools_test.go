package admin_test

import (
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tools/toolstest"
)

// Tools are listed and called for a tenant, by POST only, but not for a tenant whose filters
// depend on claims, which callers here do not have.
func TestTools(t *testing.T) {
	k, _ := toolstest.Open(t, map[string][]chunk.Document{"kb1": toolstest.Staff()})
	byClaim := filter.Filter{Type: filter.In, Key: "department", Value: filter.Claim("departments")}
	claims := false
	open := func() string {
		return listen(t, admin.NewServer(handler(func(h *admin.Handler) {
			h.Tools = &tools.Box{Knowledge: *k, Bases: func() []tools.Base {
				return []tools.Base{{ID: "kb0", Description: "of others"}, {ID: "kb1", Description: "of staff"}}
			}}
			if p := h.Tenants.ByName("acme"); claims {
				p.Rewrite.Filter = &byClaim
			} else {
				p.Rewrite.Knowledge = []string{"kb1"}
			}
		}).Handle, slog.New(slog.DiscardHandler)))
	}
	url := open()
	code, got := call(t, "GET", url+"/v1/tools?tenant=acme", "")
	for _, name := range tools.ToolNames() {
		if code != 200 || !strings.Contains(got, `"name":"`+string(name)+`"`) || !strings.Contains(got, " Knowledge bases: kb1 (of staff).") {
			t.Errorf("no %s: %d %s", name, code, got)
		}
	}
	for _, c := range []struct {
		method, path, body, want string
		code                     int
	}{
		{"POST", "/v1/tools/search_knowledge?tenant=acme", `{"query":"badge tricycles"}`, `"ref_id":"kb1:guide.md:`, 200},
		{"POST", "/v1/tools/recall?tenant=acme&model=gpt-4o", `{"query":"badge tricycles","max_tokens":9000}`, `"path":"guide.md"`, 200},
		{"POST", "/v1/tools/recall?tenant=acme", `{}`, `"param":"query"`, 400},
		{"POST", "/v1/tools/x?tenant=acme", `{}`, `There is no tool \"x\"`, 404},
		{"POST", "/v1/tools/recall?tenant=nobody", `{"query":"x"}`, `There is no tenant \"nobody\"`, 400},
		{"GET", "/v1/tools/recall?tenant=acme", "", `takes POST`, 405},
		{"GET", "/v1/toolsx", "", `There is nothing`, 404},
	} {
		if code, got := call(t, c.method, url+c.path, c.body); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, got)
		}
	}
	claims = true
	if code, got := call(t, "POST", open()+"/v1/tools/search_knowledge?tenant=acme", `{"query":"badge"}`); code != 400 || !strings.Contains(got, "claim") || strings.Contains(got, "hits") {
		t.Errorf("%d %s", code, got)
	}
}
