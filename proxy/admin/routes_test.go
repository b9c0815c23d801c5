package admin_test

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/experiment"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tools/toolstest"
	"sidenote/rewrite"
)

// scopesOnPage returns the scopes that the page gives each request, by "METHOD PATH".
func scopesOnPage(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| request | `metrics` |")
	if !ok {
		t.Fatal("the page has no table of scopes")
	}
	lines := strings.Split("| request | `metrics` |"+table, "\n")
	header := strings.Split(lines[0], "|")
	all := map[string][]string{}
	for _, line := range lines[2:] {
		cells := strings.Split(line, "|")
		if len(cells) != len(header) {
			break
		}
		for _, m := range regexp.MustCompile("`([A-Z]+ /[^`]*)`").FindAllStringSubmatch(cells[1], -1) {
			if all[m[1]] != nil {
				t.Errorf("%s is in two rows", m[1])
			}
			for i := 2; i < len(cells)-1; i++ {
				if strings.TrimSpace(cells[i]) == "yes" {
					all[m[1]] = append(all[m[1]], strings.Trim(header[i], " `"))
				}
			}
		}
	}
	return all
}

// scopedTokens returns a token of each scope. Its secret is the name of the scope; that of an expired
// one ends in -late, and that of one for kb1 alone in -kb1.
func scopedTokens() (all []admin.Token) {
	for _, scope := range []admin.Scope{admin.ScopeAdmin, admin.ScopeWrite, admin.ScopeRead, admin.ScopeMetrics} {
		all = append(all, admin.Token{Name: "my-" + string(scope), Scope: scope, SHA256: sha256.Sum256([]byte(scope))})
		all = append(all, admin.Token{Name: "late", Scope: scope, SHA256: sha256.Sum256([]byte(scope + "-late")), Expires: time.Now().Add(-time.Hour)})
	}
	for _, scope := range []admin.Scope{admin.ScopeWrite, admin.ScopeRead} {
		all = append(all, admin.Token{Name: "one", Scope: scope, SHA256: sha256.Sum256([]byte(scope + "-kb1")), Knowledge: []string{"kb1"}})
	}
	return all
}

// startWhole starts a port with everything that it can serve.
func startWhole(t *testing.T, documents ...string) string {
	t.Helper()
	modes, err := tenant.NewSwitch(nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	knowledge, _ := toolstest.Open(t, map[string][]chunk.Document{"kb1": toolstest.Staff(), "kb2": toolstest.Staff()})
	h := handler(func(h *admin.Handler) {
		h.Modes, h.Assembler = modes, rewrite.NewAssembler(models{})
		h.Reload = func(context.Context) (admin.Reloaded, error) { return admin.Reloaded{Object: "reload"}, nil }
		h.Manager, h.Library = &fakeManager{ids: documents}, bothStores{&twoStores{files: documents}}
		h.Tools = &tools.Box{Knowledge: *knowledge, Bases: func() []tools.Base { return []tools.Base{{ID: "kb1"}, {ID: "kb2"}} }}
		h.Usage = budget.NewMemory(time.Now)
		h.Experiments = experiment.New("", nil)
		h.Experiments.Configure([]experiment.Settings{{Name: "read_knowledge", Share: .5}}) // the name in example
		h.Explain, h.Overview = explain.New(10, explain.BodiesFull), explain.NewRecorder()
		h.Explain.Record(&report.Report{ID: keptID, Outcome: rewrite.Untouched})
		h.StateToken = func() (string, error) { return "state", nil }
		h.ReadToken = proxy.NewSecret("read_token")
		h.Tokens = scopedTokens()
		h.Lookup.Reader = knowledge.Reader
	})
	return listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
}

// bothStores has two bases that can be searched, kb1 and kb2.
type bothStores struct{ *twoStores }

func (s bothStores) Store(id string) (explain.Store, bool) {
	if id == "kb2" {
		id = "kb1"
	} else if id != "kb1" {
		return explain.Store{}, false
	}
	return s.twoStores.Store(id)
}

func (s bothStores) Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	res := retrieval.Result{Bases: q.Bases}
	for _, ref := range q.Bases {
		res.Sources = append(res.Sources, retrieval.Source{Knowledge: ref.Knowledge, Doc: "a.md", Text: "of " + ref.Knowledge, Score: 1})
	}
	return res, nil
}

// keptID is the id of a request that is kept.
const keptID = "01M7Y9S0G540QS2PPDJ5EB1HAP"

// example returns a request for a route, of which every part that the base does not name is in order.
func example(method, path, base string) request {
	bodies := map[string]string{
		"POST /v1/search":                         `{"query":"badge","knowledge":["` + base + `"]}`,
		"POST /v1/read":                           `{"knowledge":"` + base + `","document":"guide.md"}`,
		"POST /v1/tools/{name}":                   `{"refs":["kb1:guide.md:0"]}`,
		"POST /v1/rewrite":                        chatBody,
		"POST /v1/context":                        `{"model":"m","chunks":[{"id":"s1","type":"system","content":"x"}]}`,
		"POST /v1/vector_stores/{base}/search":    `{"query":"one"}`,
		"POST /v1/knowledge":                      `{"id":"kb1"}`,
		"POST /v1/knowledge/{base}/documents":     `{"documents":[{"id":"a","text":"x"}]}`,
		"PUT /v1/knowledge/{base}/documents/{id}": `{"text":"x"}`,
		"POST /v1/knowledge/{base}/forget":        `{"documents":["a"]}`,
		"POST /v1/mode":                           `{"mode":"off"}`,
		"POST /v1/reload":                         `{}`,
	}
	query := map[string]string{"POST /v1/rewrite": "?tenant=acme", "POST /v1/context": "?tenant=acme", "GET /v1/proof": "?challenge=" + strings.Repeat("0", 64)}
	route := method + " " + path
	named := strings.NewReplacer("{base}", base, "{name}", "read_knowledge", "{tenant}", "acme", "/explain/{id}", "/explain/"+keptID, "{id}", "a").Replace(path)
	return request{method, named + query[route], bodies[route]}
}

// Each scope reaches exactly the requests that the page says, and every request is on the page.
func TestScopesReachWhatThePageSays(t *testing.T) {
	url, page := startWhole(t, "a"), scopesOnPage(t)
	const public = "GET /healthz, GET /readyz, GET /v1/proof, POST /v1/knowledge/{base}/webhook"
	for _, route := range admin.Routes() {
		name := route[0] + " " + route[1]
		allowed := page[name]
		if delete(page, name); len(allowed) == 0 && !strings.Contains(public, name) {
			t.Errorf("%s is not on the page", name)
			continue
		}
		r := example(route[0], route[1], "kb1")
		send := func(bearer string) (int, string) {
			lines := []string{"Content-Type: application/json"}
			if bearer != "" {
				lines = append(lines, "Authorization: Bearer "+bearer)
			}
			return call(t, r.method, url+r.path, r.body, lines...)
		}
		if len(allowed) == 0 { // no token changes anything
			for _, bearer := range []string{"", "admin", "read-late", "wrong"} {
				if code, body := send(bearer); code == 403 || strings.Contains(body, "token is missing") {
					t.Errorf("%s with %q: %d %s", name, bearer, code, body)
				}
			}
			continue
		}
		for _, scope := range []string{"metrics", "read", "write", "read_token", "admin"} {
			code, body := send(scope)
			if may := slices.Contains(allowed, scope); may && code/100 != 2 || !may && code != 403 {
				t.Errorf("%s with scope %s: %d %s", name, scope, code, body)
			}
		}
		for bearer, want := range map[string]string{"": "token", "wrong": "invalid_api_key", "state": "invalid_api_key", "read-late": `The token \"late\" has expired: its last day was `, "admin-late": "has expired"} {
			if code, body := send(bearer); code != 401 || !strings.Contains(body, want) {
				t.Errorf("%s with %q: %d %s", name, bearer, code, body)
			}
		}
	}
	for name := range page {
		t.Errorf("the page has %s, and the port has not", name)
	}
}

// For a token that is limited to a base, another base answers as one that does not exist, and
// nothing names it.
func TestOtherBasesDoNotExist(t *testing.T) {
	url := startWhole(t, "a")
	for _, route := range admin.Routes() {
		if strings.HasSuffix(route[1], "/webhook") {
			continue
		}
		for _, scope := range []string{"read", "write"} {
			send := func(base, bearer string) (int, string) {
				r := example(route[0], route[1], base)
				return call(t, r.method, url+r.path, r.body, "Content-Type: application/json", "Authorization: Bearer "+bearer)
			}
			free, _ := send("kb1", scope)
			own, shown := send("kb1", scope+"-kb1")
			if own != free || route[1] != "/metrics" && strings.Contains(shown, "kb2") {
				t.Errorf("%v with %s for kb1: %d %s, want %d", route, scope, own, shown, free)
			}
			other, text := send("kb2", scope+"-kb1")
			none, want := send("nil", scope+"-kb1")
			if other != none || strings.ReplaceAll(text, "kb2", "nil") != want {
				t.Errorf("%v with %s: the base of others %d %s, none %d %s", route, scope, other, text, none, want)
			}
			if named := example(route[0], route[1], "kb2"); free/100 == 2 && strings.Contains(named.path+named.body, "kb2") && other/100 == 2 {
				t.Errorf("%v with %s reaches kb2: %s", route, scope, text)
			}
		}
	}
}

// With the scopes read and write nobody can ask as a tenant, and several bases in a path are those
// that the token is for.
func TestReadersNameNoTenant(t *testing.T) {
	url := startWhole(t, "a")
	for _, r := range []request{
		{"POST", "/v1/search?tenant=acme", `{"query":"badge","stages":true}`}, {"POST", "/v1/read?tenant=acme", `{"knowledge":"kb1","document":"guide.md"}`},
		{"GET", "/v1/tools?tenant=acme", ""}, {"GET", "/v1/vector_stores?tenant=acme", ""}, {"GET", "/v1/vector_stores/kb1?tenant=nobody", ""},
	} {
		for _, bearer := range []string{"read", "write-kb1"} {
			if code, body := call(t, r.method, url+r.path, r.body, "Authorization: Bearer "+bearer, "Content-Type: application/json"); code != 403 || !strings.Contains(body, "insufficient_scope") {
				t.Errorf("%s with %s: %d %s", r.path, bearer, code, body)
			}
		}
	}
	code, body := call(t, "POST", url+"/v1/vector_stores/kb2/search", `{"query":"one"}`, "Authorization: Bearer read-kb1")
	if code != 404 || !strings.Contains(body, "there are kb1.") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := call(t, "PATCH", url+"/v1/knowledge/kb1", "", "Authorization: Bearer read-kb1"); code != 405 {
		t.Errorf("another method: %d %s", code, body)
	}
}
