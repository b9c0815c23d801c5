package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/tenant/tenanttest"
)

// T09: a token identifies its tenant, with keys that are fetched or read from a file; a trusted
// peer may name any tenant; and /readyz says which keys cannot be fetched.
func TestTenantsByToken(t *testing.T) {
	s, up := tenanttest.NewSigner(t), newRecorder(t)
	published := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.JWKS()) }))
	defer published.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"keys.json": string(s.JWKS()),
		"sidenote.yaml": fmt.Sprintf(`
upstream: %s/v1
state: ":memory:"
identity:
  jwt:
    corp: {issuer: %s, audience: %s, jwks_url: %s}
    file: {issuer: %[2]s, audience: by-file, jwks_file: keys.json, algorithms: [RS256]}
    gone: {issuer: https://gone.example.com, audience: a, jwks_url: https://localhost:1/jwks}
  header: {trusted: [127.0.0.1]}
tenants:
  hr: {jwt: {corp: {groups: [hr, people]}}}
  ops: {jwt: {file: {groups: ops}, gone: {groups: ops}}}
`, up.URL, tenanttest.Issuer, tenanttest.Audience, published.URL),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
	resp, err := http.Get(p.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := new(strings.Builder)
	if err := resp.Write(text); err != nil || resp.StatusCode != 200 ||
		!strings.Contains(text.String(), "identity.jwt.gone: no keys, so every token is refused: fetch https://localhost:1/jwks: ") || strings.Contains(text.String(), "corp") {
		t.Errorf("%v: %s", err, text)
	}
	for _, c := range []struct {
		aud, group string
		status     int
	}{{tenanttest.Audience, "people", 200}, {"by-file", "ops", 200}, {"by-file", "people", 401}, {"nobody", "ops", 401}} {
		token := s.Token(tenanttest.Claims(time.Now(), map[string]any{"aud": c.aud, "groups": c.group}))
		status, answer := posted(t, p.data+"/v1/chat/completions", token, bonusQuestion)
		if status != c.status || strings.Contains(answer, c.aud) {
			t.Errorf("%s for %s: %d %s", c.group, c.aud, status, answer)
		}
		if c.status == 200 && up.last(t).header.Get("Authorization") != "" {
			t.Errorf("the upstream got %v", up.last(t).header)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.data+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sidenote-Tenant", "ops")
	named, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer named.Body.Close()
	if named.StatusCode != 200 || up.last(t).header.Get("Sidenote-Tenant") != "" {
		t.Errorf("%d, and the upstream got %v", named.StatusCode, up.last(t).header)
	}
}
