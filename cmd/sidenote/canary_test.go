package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant/tenanttest"
	"sidenote/retrieval/services/servicestest"
)

// A canary is a run of the program with a secret of every kind; it collects all output.
type canary struct {
	t       *testing.T
	p       *process
	up      *recorder
	secrets map[string]string // by what they are
	env     map[string]string
	config  string // the file
	shown   strings.Builder
}

const canaryConfig = `
upstream: {base_url: %s/v1, api_key: {file: key}}
state: ":memory:"
admin: {token: {env: ADMIN}, read_token: {file: read}}
redis: {url: {env: REDIS}, timeout: 5ms, encryption_keys: {file: encryption}}
explain: {bodies: %s}
upstreams: {vectors: {base_url: %s, api_key: {env: VECTORS}}}
embeddings: {upstream: vectors, model: m}
knowledge: {docs: {path: docs, embed: true, attributes_from: {front_matter: [department]}}}
policies:
  default: {knowledge: [docs], routes: [/chat/completions, /models], models: [gpt-*]}
  calling: {extends: default, mode: tools}
  claims: {extends: default, filters: [{type: eq, key: department, value: "${claims.department}"}]}
identity: {jwt: {corp: {issuer: %s, audience: %s, jwks_file: keys.json}}}
tenants:
  acme: {keys: ["%x"], policy: default}
  agents: {keys: ["%x"], policy: calling}
  staff: {jwt: {corp: {groups: staff}}, policy: claims}
`

// newCanary starts the program with the given setting of explain.bodies.
func newCanary(t *testing.T, bodies string) *canary {
	t.Helper()
	s, up, dir := tenanttest.NewSigner(t), newRecorder(t), t.TempDir()
	c := &canary{t: t, up: up, config: filepath.Join(dir, "sidenote.yaml")}
	c.secrets = map[string]string{
		"key of a tenant": "sk-sidenote-canary-tenant", "key of agents": "sk-sidenote-canary-agents", "unknown key": "sk-sidenote-canary-unknown", "key of the upstream": "sk-canary-up",
		"key of embeddings": "sk-canary-vectors",
		"admin token":       "canary-admin-token", "read token": "canary-read-token", "password of Redis": "canary-redis-password",
		"encryption key": base64.StdEncoding.EncodeToString([]byte("canary-canary-canary-canary-32-b")),
		"claim":          "canary-claim-department", "subject": "canary-subject",
	}
	c.secrets["token"] = s.Token(tenanttest.Claims(time.Now(), map[string]any{
		"groups": "staff", "department": c.secrets["claim"], "sub": c.secrets["subject"],
	}))
	c.secrets["expired token"] = s.Token(tenanttest.Claims(time.Now().Add(-time.Hour), map[string]any{"groups": "staff"}))
	c.env = map[string]string{"ADMIN": c.secrets["admin token"], "REDIS": "redis://user:" + c.secrets["password of Redis"] + "@127.0.0.1:1/0", "VECTORS": c.secrets["key of embeddings"]}
	service := servicestest.Start(t)
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return func(w http.ResponseWriter, r servicestest.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error": {"message": "wrong key %s", "code": "%[1]s x"}}`, r.Key)
		}
	})
	for name, text := range map[string]string{
		"key": c.secrets["key of the upstream"], "read": c.secrets["read token"], "keys.json": string(s.JWKS()),
		"encryption":          "k1 " + c.secrets["encryption key"],
		"docs/bonus.md":       "---\ndepartment: hr\n---\n# Bonus\n\nThe bonus of everybody at Acme is four thousand euros.\n",
		"docs/" + hostileName: "# Dogs <script>alert(4)</script>\n\nDogs may come to the office on Fridays.\n",
		"sidenote.yaml":       fmt.Sprintf(canaryConfig, up.URL, bodies, service.URL, tenanttest.Issuer, tenanttest.Audience, sha256.Sum256([]byte(c.secrets["key of a tenant"])), sha256.Sum256([]byte(c.secrets["key of agents"]))),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.p = serveIn(t, c.lookup, "--config", c.config)
	return c
}

func (c *canary) lookup(name string) (string, bool) { v, ok := c.env[name]; return v, ok }

// asks sends a request and records the answer and its head.
func (c *canary) asks(method, url, credential, body string) (status int, id string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := resp.Write(&c.shown); err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Sidenote-Id")
}

// explained repeats the request for an explanation until it is there, which may be a little after
// the answer.
func (c *canary) explained(id string) {
	c.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if got, _ := c.asks("GET", c.p.admin+"/v1/explain/"+id, c.secrets["admin token"], ""); got == 200 {
			c.asks("GET", c.p.admin+"/requests/"+id, c.secrets["admin token"], "")
			c.asks("GET", c.p.admin+"/requests/"+id+"/json", c.secrets["admin token"], "")
			c.asks("GET", c.p.admin+"/requests/"+id+"/ask", c.secrets["admin token"], "")
			c.asks("POST", c.p.admin+"/requests/"+id+"/ask", c.secrets["admin token"], "policy=calling&helpers=yes")
			return
		} else if time.Now().After(deadline) {
			c.t.Fatalf("explain %s: status %d", id, got)
		}
	}
}

// sends writes raw bytes, which need not be a request, and records the answer.
func (c *canary) sends(text string) {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.p.data, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		c.t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(&c.shown, conn) // a reset is an answer, too
}

// runs runs a command and records its output.
func (c *canary) runs(code int, args ...string) {
	c.t.Helper()
	var out bytes.Buffer
	if got := Run(c.t.Context(), args, strings.NewReader(""), &out, &out, c.lookup); got != code {
		c.t.Errorf("%s ends with %d: %s", strings.Join(args, " "), got, out.String())
	}
	c.shown.Write(out.Bytes())
}

// T28: no key, token, password or claim appears in any output, log, metric, explanation or answer,
// whatever goes wrong.
func TestT28CanarySecrets(t *testing.T) {
	c := newCanary(t, "full")
	const chat = "/v1/chat/completions"
	want := map[string]int{"key of a tenant": 200, "key of agents": 200, "token": 200, "unknown key": 401, "expired token": 401, "admin token": 401, "claim": 401, "key of the upstream": 401}
	admin := c.secrets["admin token"]
	c.p.out.until(t, "embed passages: answered 401")
	for name, status := range want {
		got, id := c.asks("POST", c.p.data+chat, c.secrets[name], bonusQuestion)
		if got != status {
			t.Errorf("%s: status %d, want %d", name, got, status)
		}
		if got == 200 {
			c.explained(id)
			c.runs(exitDone, "explain", id, "--admin", strings.TrimPrefix(c.p.admin, "http://"), "--config", c.config)
		}
		for _, body := range []string{`{"messages":"wrong"}`, `{"model":"other","messages":[]}`, `{"model":"gpt-4o","messages":[],"sidenote":{"mode":"wrong"}}`, `{`} {
			c.asks("POST", c.p.data+chat, c.secrets[name], body)
		}
		c.asks("GET", c.p.data+"/v1/files", c.secrets[name], "")
		c.asks("GET", c.p.data+"/v1/models", c.secrets[name], "")
		c.asks("GET", c.p.admin+"/v1/keys", c.secrets[name], "")
		c.asks("GET", c.p.admin+"/v1/overview", c.secrets[name], "")
		c.asks("PUT", c.p.admin+"/v1/knowledge/new", c.secrets[name], "{}")
		c.asks("POST", c.p.admin+"/signin", "", "token="+c.secrets[name]+"&next=/requests")
		for _, head := range []string{
			"GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nAuthorization: Bearer %[1]s\r\n\r\n",
			"GET /v1/models HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\nBad Header: %[1]s\r\n\r\n",
			"GET /%s HTTP/9\r\nHost: a\r\nAuthorization: %[1]s\r\n\r\n",
			"POST " + chat + " HTTP/1.1\r\nHost: a\r\napi-key: %s\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
			"GET /v1/models HTTP/1.1\r\nHost: a\r\nSidenote-Tenant: %s\r\nAuthorization: Bearer %[1]s\r\n\r\n",
			"Authorization: Bearer %s\r\n\r\n",
		} {
			c.sends(fmt.Sprintf(head, c.secrets[name]))
		}
	}
	callsTools(c)
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/v1/keys", "/v1/explain", "/v1/knowledge", "/v1/modes", "/v1/vector_stores", "/", "/nothing", "/requests", "/requests/nothing", "/signin", "/tenants", "/tenants/acme", "/tenants/acme/json", "/tenants/staff", "/policies/claims", "/policies/claims/json"} {
		c.asks("GET", c.p.admin+path, admin, "")
	}
	for _, tenant := range []string{"acme", "agents", "staff", "nobody"} {
		c.asks("POST", c.p.admin+"/v1/rewrite?tenant="+tenant, admin, bonusQuestion)
		c.asks("POST", c.p.admin+"/v1/search?tenant="+tenant, admin, `{"query":"bonus"}`)
	}
	at := []string{"--config", c.config}
	for _, flags := range [][]string{{}, {"--json"}, {"--offline"}, {"--tenant", "acme"}, {"--tenant", "staff", "--json"}, {"--diff", c.config}, {"--schema"}} {
		c.runs(exitDone, append(append([]string{"check"}, flags...), at...)...)
	}
	c.runs(exitUsage, "check", "--config", filepath.Join(filepath.Dir(c.config), "key"))
	c.runs(exitDone, append([]string{"key", "list", "--admin", strings.TrimPrefix(c.p.admin, "http://")}, at...)...)
	c.up.Close()
	if got, _ := c.asks("POST", c.p.data+chat, c.secrets["key of a tenant"], bonusQuestion); got != 502 {
		t.Errorf("without an upstream: status %d", got)
	}
	if code := c.p.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	c.shown.WriteString(c.p.out.text.String())
	c.nowhere()
}

// callsTools sends chats whose model calls one of Sidenote's tools with a fake key.
func callsTools(c *canary) {
	c.t.Helper()
	c.secrets["key that a model writes"] = "sk-canary-written-by-a-model"
	for _, stream := range []string{"false", "true"} {
		_, id := c.asks("POST", c.p.data+"/v1/chat/completions", c.secrets["key of agents"], `{"model":"gpt-calling","stream":`+stream+`,"messages":[{"role":"user","content":"What is the bonus?"}]}`)
		c.explained(id)
		c.runs(exitDone, "explain", id, "--admin", strings.TrimPrefix(c.p.admin, "http://"), "--config", c.config)
	}
}

// nowhere checks that the collected output is complete and contains none of the secrets.
func (c *canary) nowhere() {
	c.t.Helper()
	text := c.shown.String()
	for _, part := range []string{`"outcome":"failed"`, `"denied"`, "sidenote_requests_total", "four thousand euros", "api_key ***", "embed passages: answered 401", `"key":"department","value":"${claims.department}"`,
		`"tools":{"rounds":2,"calls":1`, "sidenote-status: tools; ", "<h2>Token budget</h2>", "This token is wrong.", "the newest first", `"arguments":"{\"query\":\"bonus (a key)\"}"`, `search_knowledge      1 `, `sidenote_tool_calls_total{outcome="ok",tool="search_knowledge"} `} {
		if !strings.Contains(text, part) {
			c.t.Errorf("%q is not shown, so that not everything was looked through", part)
		}
	}
	for name, secret := range c.secrets {
		if at := strings.Index(text, secret); at >= 0 {
			c.t.Errorf("the %s is shown: …%s…", name, text[max(0, at-300):min(len(text), at+len(secret)+40)])
		}
	}
}

// A leaking panics with a message that contains all its secrets.
type leaking []any

func (l leaking) Record(*report.Report) { panic(fmt.Sprint(l...)) }

// T28, P8: a panic whose message contains a key is counted and logged with its stack, but without
// the key.
func TestT28CanaryInPanic(t *testing.T) {
	const key, own = "sk-sidenote-canary-tenant", "sk-canary-up"
	up := newRecorder(t)
	dir := writeFiles(t, map[string][]byte{"key": []byte(own), "c.yaml": fmt.Appendf(nil, "upstream: {base_url: %s/v1, api_key: {file: key}}\ntenants: {acme: {keys: [\"%x\"]}}\n", up.URL, sha256.Sum256([]byte(key)))})
	p := serveBy(t, func(ctx context.Context, args []string, out io.Writer) int {
		a := &app{ctx: ctx, stdin: strings.NewReader(""), stdout: io.Discard, stderr: out, env: noEnv, reports: leaking{key, own}}
		return exitCodeOf(a.run(args))
	}, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:")
	c := &canary{t: t, p: p}
	if got, _ := c.asks("POST", p.data+"/v1/chat/completions", key, bonusQuestion); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	c.shown.WriteString(p.out.until(t, "canary_test.go")) // in the stack
	c.asks("GET", p.admin+"/metrics", "", "")
	p.stop()
	c.shown.WriteString(p.out.text.String())
	for _, part := range []string{"BUG: panic", "string, not shown as it may hold what a request held", "sidenote_panics_total 1"} {
		if !strings.Contains(c.shown.String(), part) {
			t.Errorf("%q is not shown", part)
		}
	}
	if at := strings.Index(c.shown.String(), "canary-"); at >= 0 {
		t.Errorf("a key is shown: %s", c.shown.String()[max(0, at-300):at])
	}
}

func exitCodeOf(err error) int {
	if err != nil {
		return exitFailed
	}
	return exitDone
}
