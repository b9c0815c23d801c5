package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/tenant/tenanttest"
)

// T07: claims of a token, also nested ones, decide which documents its caller sees; callers without
// the claim see none, by search or by reference.
func TestClaimsChooseDocuments(t *testing.T) {
	s, up, dir := tenanttest.NewSigner(t), newRecorder(t), t.TempDir()
	const key = "sk-sidenote-by-key"
	for name, text := range map[string]string{
		"keys.json":         string(s.JWKS()),
		"docs/one.md":       "---\ndepartment: one\n---\n# Bonus\n\nThe bonus of department one is four thousand.\n",
		"docs/two.md":       "---\ndepartment: two\n---\n# Bonus\n\nThe bonus of department two is nine thousand.\n",
		"docs/everybody.md": "# Bonus\n\nThe bonus of everybody is none.\n",
		"sidenote.yaml": fmt.Sprintf(`
upstream: %s/v1
state: ":memory:"
knowledge: {docs: {path: docs, attributes_from: {front_matter: [department]}}}
policies:
  default: {knowledge: [docs], filters: [{type: in, key: department, value: "${claims.realm.departments}"}]}
identity: {jwt: {corp: {issuer: %s, audience: %s, jwks_file: keys.json}}}
tenants: {staff: {jwt: {corp: {realm.kind: staff}}, keys: ["%x"]}}
`, up.URL, tenanttest.Issuer, tenanttest.Audience, sha256.Sum256([]byte(key))),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const question = `{"model":"gpt-4o","messages":[{"role":"user","content":"What is the bonus of a department in thousand?"}]}`
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
	token := func(claims map[string]any) string { return s.Token(tenanttest.Claims(time.Now(), claims)) }
	realm := func(departments any) map[string]any {
		return map[string]any{"realm": map[string]any{"kind": "staff", "departments": departments}}
	}
	both := realm("one")
	both["realm.departments"] = "two"
	for name, c := range map[string]struct {
		credential string
		status     int
		shown      string // departments
	}{
		"one":         {token(realm("one")), 200, "one"},
		"list":        {token(realm([]string{"one", "two"})), 200, "one two"},
		"whole names": {token(map[string]any{"realm.kind": "staff", "realm.departments": "two"}), 200, "two"},
		"unknown":     {token(realm("three")), 200, ""},
		"both names":  {token(both), 401, ""},
		"no claim":    {token(realm(nil)), 403, ""},
		"empty":       {token(realm("")), 403, ""},
		"key":         {key, 403, ""},
	} {
		before := up.count()
		status, answer := posted(t, p.data+"/v1/chat/completions", c.credential, question)
		if status != c.status {
			t.Errorf("%s: %d %s, want %d", name, status, answer, c.status)
			continue
		}
		if status != 200 {
			if up.count() != before {
				t.Errorf("%s: a refused chat reached the upstream", name)
			}
			continue
		}
		sent := string(up.last(t).body)
		for _, department := range []string{"one", "two", "everybody"} {
			if has, want := strings.Contains(sent, " "+department+" is"), strings.Contains(c.shown, department); has != want {
				t.Errorf("%s: documents of %s are sent: %v, want %v", name, department, has, want)
			}
		}
	}
	// Tokens are not accepted on the admin port, so it shows none of this tenant's documents.
	for _, path := range []string{
		"/v1/search?tenant=staff", "/v1/rewrite?tenant=staff", "/v1/vector_stores/docs/search?tenant=staff",
		"/v1/vector_stores/docs/files?tenant=staff", "/v1/vector_stores/docs/files/one.md?tenant=staff", "/v1/vector_stores?tenant=staff",
	} {
		status, answer := asked(t, p.admin+path)
		if status != http.StatusBadRequest || !strings.Contains(answer, "realm.departments") || strings.Contains(answer, "thousand") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

// asked gets a URL, or posts a question to a URL of searches or dry runs.
func asked(t *testing.T, url string) (status int, answer string) {
	t.Helper()
	path, _, _ := strings.Cut(url, "?")
	switch {
	case strings.HasSuffix(path, "/v1/rewrite"):
		return posted(t, url, "", bonusQuestion)
	case strings.HasSuffix(path, "search"):
		return posted(t, url, "", `{"query":"bonus"}`)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
