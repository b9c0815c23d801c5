package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3/option"
)

const edgeToken, newEdgeToken, crmToken = "edge-0123456789abcdef", "edge-fedcba9876543210", "crm-0123456789abcdef"

// newScopedCentral starts a Sidenote with two bases, a tenant, and tokens of all scopes. Its
// configuration is in the folder dir.
func newScopedCentral(t *testing.T) (p *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"edge": edgeToken, "new": newEdgeToken, "crm": crmToken, "ops": "ops-0123456789abcdef", "scrape": "scrape-0123456789abcdef"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "central.yaml"), []byte(fmt.Sprintf(`
upstream: %s
knowledge: {handbook: %s, secret: {engine: embedded}}
explain: {bodies: full}
mcp: {listen: 127.0.0.1:0}
admin:
  tokens:
    - {name: edge, scope: read, file: edge, knowledge: [handbook]}
    - {name: crm, scope: write, file: crm, knowledge: [secret]}
    - {name: ops, scope: admin, file: ops}
    - {name: scrape, scope: metrics, file: scrape}
    - {name: gone, scope: admin, sha256: %x, expires: 2026-01-31}
tenants: {acme: {keys: ["%x"], knowledge: [handbook]}}
`, newRecorder(t).URL, handbook(t), sha256.Sum256([]byte("gone-0123456789abcdef")), sha256.Sum256([]byte(acmeKey)))), 0o600))
	return serve(t, "--config", filepath.Join(dir, "central.yaml"), "--state", filepath.Join(t.TempDir(), "state")), dir
}

// A Sidenote searches a central one with a token for its base. With the token nobody sees questions,
// keys, settings or other bases.
func TestReadTokenOfOneBase(t *testing.T) {
	central, dir := newScopedCentral(t)
	central.gives(t, crmToken, "PUT", "/v1/knowledge/secret/documents/plan.md", `{"text":"# Parental leave\n\nThe secret plan is parental leave for cats."}`, 201)
	if status, text := posted(t, central.data+"/v1/chat/completions", acmeKey, bonusQuestion); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	edge := serve(t, "--config", edgeConfig(t, newRecorder(t).URL, central.admin, filepath.Join(dir, "edge"), "5s"))
	var sent []byte
	sdk := sdkClient(edge, &sent)
	var resp *http.Response
	if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), option.WithResponseInto(&resp)); err != nil {
		t.Fatal(err)
	}
	if s := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(s, "injected; sources=1; ") {
		t.Errorf("Sidenote-Status: %s", s)
	}
	if _, body := get(t, edge.admin+"/readyz"); body != `{"status":"ready"}` {
		t.Errorf("readyz: %s", body)
	}
	if _, found := posted(t, edge.admin+"/v1/tools/recall", "", `{"query":"parental leave weeks"}`); !strings.Contains(found, "16 weeks") {
		t.Errorf("reads %s", found)
	}
	for _, path := range []string{"/v1/overview", "/v1/explain/x", "/v1/keys", "/v1/calibration", "/v1/mode", "/metrics", "/v1/usage"} {
		central.gives(t, edgeToken, "GET", path, "", 403)
	}
	central.gives(t, edgeToken, "POST", "/v1/search?tenant=acme", search, 403)
	central.gives(t, edgeToken, "GET", "/v1/knowledge/handbook", "", 200)
	central.gives(t, edgeToken, "PUT", "/v1/knowledge/handbook/documents/x", `{"text":"x"}`, 403)
	central.token = edgeToken
	for _, path := range []string{"/v1/knowledge", "/v1/vector_stores", "/v1/tools"} {
		if body := central.asks(t, "GET", path, "", 200, "handbook"); strings.Contains(body, "secret") {
			t.Errorf("%s names another base: %s", path, body)
		}
	}
	if body := central.asks(t, "POST", "/v1/search", search, 200, "16 weeks"); strings.Contains(body, "cats") {
		t.Errorf("finds another base's document: %s", body)
	}
	if body := central.asks(t, "POST", "/v1/tools/recall", `{"query":"secret plan parental leave for cats"}`, 200); strings.Contains(body, "cats.") {
		t.Errorf("recalls another base's document: %s", body)
	}
	for _, r := range [][3]string{
		{"GET", "/v1/knowledge/%s", ""}, {"GET", "/v1/knowledge/%s/documents", ""}, {"GET", "/v1/knowledge/%s/documents/plan.md", ""},
		{"GET", "/v1/vector_stores/%s", ""}, {"GET", "/v1/vector_stores/%s/files", ""}, {"GET", "/v1/vector_stores/%s/files/plan.md/content", ""},
		{"POST", "/v1/vector_stores/%s/search", search}, {"POST", "/v1/search", `{"query":"cats","knowledge":["%s"]}`},
		{"POST", "/v1/read", `{"knowledge":"%s","document":"plan.md"}`}, {"POST", "/v1/tools/read_knowledge", `{"refs":["%s:plan.md:0"]}`},
	} {
		ask := func(base string) (string, string) {
			as := strings.NewReplacer("%s", base)
			resp, err := http.DefaultClient.Do(central.request(t, r[0], as.Replace(r[1]), as.Replace(r[2])))
			body := answered(t, resp, err)
			return resp.Status, strings.ReplaceAll(body, base, "BASE")
		}
		status, body := ask("secret")
		if none, want := ask("nobody"); status != none || body != want {
			t.Errorf("%s %s: the base of others %s %s, none %s %s", r[0], r[1], status, body, none, want)
		}
	}
	central.gives(t, "scrape-0123456789abcdef", "GET", "/metrics", "", 200)
	central.gives(t, "scrape-0123456789abcdef", "GET", "/v1/knowledge", "", 403)
	central.gives(t, crmToken, "DELETE", "/v1/knowledge/secret/documents/plan.md", "", 200)
	central.gives(t, crmToken, "DELETE", "/v1/knowledge/secret", "", 403)
	central.gives(t, "ops-0123456789abcdef", "GET", "/v1/keys", "", 200)
	central.token = "gone-0123456789abcdef"
	central.asks(t, "GET", "/v1/knowledge", "", 401, `The token \"gone\" has expired: its last day was 2026-01-31.`)
	mcp := central.out.until(t, "/mcp")
	for _, url := range []string{central.data + "/v1/chat/completions", "http://" + between(t, mcp, "http://", "/mcp") + "/mcp"} {
		if status, text := posted(t, url, "ops-0123456789abcdef", bonusQuestion); status != 401 {
			t.Errorf("%s takes a token of the admin port: %d %s", url, status, text)
		}
	}
	central.out.until(t, "admin.tokens[4].expires: 2026-01-31 has passed; whoever has this token is refused")
	central.stop()
	if said := central.out.text.String(); strings.Contains(said, "0123456789abcdef") {
		t.Errorf("a token was said: %s", said)
	}
}

// between returns the text between the last begin and the following end.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	i := strings.LastIndex(text[:strings.LastIndex(text, end)], begin)
	if i < 0 {
		t.Fatalf("no %s in %s", begin, text)
	}
	return text[i+len(begin) : strings.LastIndex(text, end)]
}

// A token is replaced while it is in use: by a second one, and by another content of its file. No
// request is refused, and the old token is refused at last.
func TestTokensAreReplacedUnderLoad(t *testing.T) {
	central, dir := newScopedCentral(t)
	var current atomic.Pointer[string]
	use := func(token string) { current.Store(&token) }
	use(edgeToken)
	stop, sent := make(chan struct{}), atomic.Int64{}
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, text := posted(t, central.admin+"/v1/vector_stores/handbook/search", *current.Load(), search); status != 200 {
					t.Errorf("%d %s", status, text)
					return
				}
				sent.Add(1)
			}
		})
	}
	config := filepath.Join(dir, "central.yaml")
	text, err := os.ReadFile(config)
	must(t, err)
	change := func(old, new, said string) {
		t.Helper()
		text = []byte(strings.Replace(string(text), old, new, 1))
		must(t, os.WriteFile(config+".new", text, 0o600), os.Rename(config+".new", config))
		central.out.until(t, said)
	}
	during := func() { // the next steps wait until requests have been served meanwhile
		for before := sent.Load(); sent.Load() < before+20 && !t.Failed(); {
			central.asks(t, "GET", "/healthz", "", 200)
		}
	}
	during()
	change("    - {name: edge,", "    - {name: edge-2027, scope: read, file: new, knowledge: [handbook]}\n    - {name: edge,", "changed: admin.tokens.edge-2027.name")
	use(newEdgeToken)
	during()
	change("    - {name: edge, scope: read, file: edge, knowledge: [handbook]}\n", "", "changed: admin.tokens.edge.name")
	during()
	central.gives(t, edgeToken, "GET", "/v1/knowledge/handbook", "", 401)
	close(stop)
	load.Wait()
	must(t, os.WriteFile(filepath.Join(dir, "new.new"), []byte("edge-aaaaaaaaaaaaaaaa"), 0o600), os.Rename(filepath.Join(dir, "new.new"), filepath.Join(dir, "new")))
	central.out.until(t, "changed: admin.tokens.edge-2027.file")
	central.gives(t, "edge-aaaaaaaaaaaaaaaa", "GET", "/v1/knowledge/handbook", "", 200)
	central.gives(t, newEdgeToken, "GET", "/v1/knowledge/handbook", "", 401)
	if sent.Load() < 60 {
		t.Errorf("only %d requests", sent.Load())
	}
}
