package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy/admin"
	"sidenote/proxy/tenant/tenanttest"
)

// Row P5: if the keys of an issuer cannot be fetched, tokens that were accepted still are. A reload
// keeps the keys of issuers whose address is unchanged, and fetches those of a new address before
// it takes effect. The last uses of API keys are not forgotten.
func TestP5TokensOverReloads(t *testing.T) {
	s, up := tenanttest.NewSigner(t), newRecorder(t)
	var gone atomic.Bool
	published := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() || r.URL.Path == "/nowhere" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(s.JWKS())
	}))
	defer published.Close()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	main := fmt.Sprintf(`
upstream: %s/v1
state: ":memory:"
admin: {token: {file: token}}
identity:
  jwt:
    corp: {issuer: %s, audience: %s, jwks_url: %s/keys}
    file: {issuer: %[2]s, audience: by-file, jwks_file: keys.json, algorithms: [RS256]}
policies: {default: {context_tokens: 1000}}
tenants:
  hr: {jwt: {corp: {groups: hr}}, keys: ["%[5]x"]}
  ops: {jwt: {file: {groups: ops}}}
`, up.URL, tenanttest.Issuer, tenanttest.Audience, published.URL, sha256.Sum256([]byte(acmeKey)))
	write("token", "t0ken")
	write("keys.json", string(s.JWKS()))
	write("sidenote.yaml", main)
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
	asks := func(step, aud, group string, want int) {
		t.Helper()
		token := s.Token(tenanttest.Claims(time.Now(), map[string]any{"aud": aud, "groups": group}))
		if status, text := posted(t, p.data+"/v1/chat/completions", token, bonusQuestion); status != want {
			t.Errorf("%s: %d %s", step, status, text)
		}
	}
	reads := func(change, by string, status int, want string) {
		t.Helper()
		write("sidenote.yaml", strings.Replace(main, change, by, 1))
		_, text := reloaded(t, p, status)
		if status == http.StatusOK {
			p.out.until(t, want) // said by the watcher, if that was first
		} else if !strings.Contains(text, want) {
			t.Errorf("%s: %s", by, text)
		}
	}
	if status, text := posted(t, p.data+"/v1/chat/completions", acmeKey, bonusQuestion); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for end := time.Now().Add(30 * time.Second); ; { // until the keys of corp are there
		resp, err := http.Get(p.admin + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the keys are not read")
		}
	}
	asks("at first", tenanttest.Audience, "hr", 200)
	asks("at first", "by-file", "ops", 200)

	gone.Store(true)
	reads("context_tokens: 1000", "context_tokens: 900", 200, "tenants changed: hr (context_tokens), ops (context_tokens)")
	asks("the issuer is down", tenanttest.Audience, "hr", 200)
	reads("audience: "+tenanttest.Audience, "audience: other", 200, "identity.jwt.corp.audience")
	asks("another audience", "other", "hr", 200)
	asks("the audience before", tenanttest.Audience, "hr", 401)
	reads("", "", 200, "identity.jwt.corp.audience")
	asks("the first audience again", tenanttest.Audience, "hr", 200)
	reads("/keys", "/nowhere", 422, "identity.jwt.corp: its keys cannot be read, so tokens that are accepted now would be refused: fetch "+published.URL+"/nowhere: it answers 404")
	asks("the place is wrong", tenanttest.Audience, "hr", 200)
	if text := fetched(t, p.admin+"/readyz"); !strings.Contains(text, "degraded") || !strings.Contains(text, "its keys cannot be read") {
		t.Errorf("readyz: %s", text)
	}
	if text := fetched(t, p.admin+"/metrics"); !strings.Contains(text, "\nsidenote_config_last_reload_successful 0\n") {
		t.Error("the metric says that all is well")
	}
	gone.Store(false)
	reads("/keys", "/elsewhere", 200, "identity.jwt.corp.jwks_url")
	asks("the place is new", tenanttest.Audience, "hr", 200)

	if err := os.Remove(filepath.Join(dir, "keys.json")); err != nil {
		t.Fatal(err)
	}
	reads("", "", 422, "keys.json")
	asks("the file is gone", "by-file", "ops", 200)
	write("keys.json", `{"keys": [`)
	reads("", "", 422, "keys.json")
	asks("the file is cut off", "by-file", "ops", 200)
	write("keys.json", string(s.JWKS()))
	reads("    file:", "    new: {issuer: https://new.example.com, audience: a, jwks_url: https://localhost:1/jwks}\n    file:", 200, "identity.jwt.new.jwks_url")
	asks("beside an issuer that is down", "by-file", "ops", 200)
	if text := fetched(t, p.admin+"/readyz"); !strings.Contains(text, "identity.jwt.new: no keys, so every token is refused") {
		t.Errorf("readyz: %s", text)
	}
	reads(`    file: {issuer: `+tenanttest.Issuer+`, audience: by-file, jwks_file: keys.json, algorithms: [RS256]}`+"\n", "", 422, "tenants.ops.jwt.file")
	without := strings.Replace(main, `    file: {issuer: `+tenanttest.Issuer+`, audience: by-file, jwks_file: keys.json, algorithms: [RS256]}`+"\n", "", 1)
	main = strings.Replace(without, "  ops: {jwt: {file: {groups: ops}}}\n", "", 1)
	reads("", "", 200, "tenants removed: ops")
	asks("the issuer is removed", "by-file", "ops", 401)
	asks("beside a removed one", tenanttest.Audience, "hr", 200)

	var keys struct{ Data []admin.Key }
	if err := json.Unmarshal([]byte(fetched(t, p.admin+"/v1/keys")), &keys); err != nil || len(keys.Data) != 1 || keys.Data[0].LastUsed.IsZero() {
		t.Errorf("keys: %+v, %v", keys, err)
	}
}
