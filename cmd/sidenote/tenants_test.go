package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secrets that must not leak: the keys of two tenants, and Sidenote's own.
const (
	acmeKey     = "sk-sidenote-canary-acme"
	umbraKey    = "sk-sidenote-canary-umbra"
	upstreamKey = "sk-canary-upstream"
)

// twoTenants serves two tenants by key, each with its own base, with Sidenote's own upstream key.
func twoTenants(t *testing.T, up *recorder) *process {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"acme/bonus.md":  "# Bonus\n\nThe bonus of everybody at Acme is four thousand euros.\n",
		"umbra/bonus.md": "# Bonus\n\nThe bonus of everybody at Umbra is nine thousand euros.\n",
		"key":            upstreamKey + "\n",
		"sidenote.yaml": fmt.Sprintf(`
upstream: {base_url: %s/v1, api_key: {file: key}}
knowledge: {acme: acme, umbra: umbra}
tenants:
  acme: {keys: ["%x"], knowledge: [acme]}
  umbra: {keys: ["%x"], knowledge: [umbra]}
`, up.URL, sha256.Sum256([]byte(acmeKey)), sha256.Sum256([]byte(umbraKey))),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
}

// posted posts body and returns status and answer.
func posted(t *testing.T, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

const bonusQuestion = `{"model":"gpt-4o", "messages":[{"role":"user","content":"How large is the bonus?"}],"seed":1.0}`

// Each tenant's requests carry only its own documents and Sidenote's key; strangers and routes that
// are not allowed reach nothing; and a dry run shows what goes upstream, byte for byte.
func TestTenantsByKey(t *testing.T) {
	up := newRecorder(t)
	p := twoTenants(t, up)
	for tenant, c := range map[string]struct{ key, own, foreign string }{
		"acme": {acmeKey, "at Acme", "Umbra"}, "umbra": {umbraKey, "at Umbra", "Acme"},
	} {
		if status, answer := posted(t, p.data+"/v1/chat/completions", c.key, bonusQuestion); status != 200 {
			t.Fatalf("%s: %d %s", tenant, status, answer)
		}
		got := up.last(t)
		if !strings.Contains(string(got.body), c.own) || strings.Contains(string(got.body), c.foreign) {
			t.Errorf("%s sent %s", tenant, got.body)
		}
		if auth := got.header.Values("Authorization"); len(auth) != 1 || auth[0] != "Bearer "+upstreamKey {
			t.Errorf("%s went up with Authorization %q", tenant, auth)
		}
		_, dry := posted(t, p.admin+"/v1/rewrite?tenant="+tenant, "", bonusQuestion)
		var shown struct{ Request json.RawMessage }
		if err := json.Unmarshal([]byte(dry), &shown); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(shown.Request, got.body) {
			t.Errorf("%s: dry run shows\n%s\nsent was\n%s", tenant, shown.Request, got.body)
		}
	}
	before := up.count()
	for want, c := range map[int]struct{ path, key string }{
		401: {"/v1/chat/completions", "sk-sidenote-canary-nobody"}, 403: {"/v1/files", acmeKey},
	} {
		status, answer := posted(t, p.data+c.path, c.key, bonusQuestion)
		if status != want || !strings.Contains(answer, `"error":{`) {
			t.Errorf("%s: %d %s, want %d", c.path, status, answer, want)
		}
	}
	if up.count() != before {
		t.Error("what was refused reached the upstream")
	}
}

// No key is ever shown: not in the log, metrics, errors or dry runs.
func TestSecretsStay(t *testing.T) {
	up := newRecorder(t)
	p := twoTenants(t, up)
	var shown strings.Builder
	look := func(url, key, body string) {
		_, answer := posted(t, url, key, body)
		shown.WriteString(answer)
	}
	for _, key := range []string{acmeKey, umbraKey, "sk-sidenote-canary-wrong", ""} {
		look(p.data+"/v1/chat/completions", key, bonusQuestion)
		look(p.data+"/v1/chat/completions", key, `{"messages": "wrong", "sidenote": {"mode": "wrong"}}`)
		look(p.data+"/v1/files", key, "{}")
		look(p.admin+"/v1/rewrite?tenant=acme", key, bonusQuestion)
		look(p.admin+"/v1/search", key, `{"query":"bonus","tenant":"acme"}`)
	}
	up.Close()
	look(p.data+"/v1/chat/completions", acmeKey, bonusQuestion)
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(&shown, resp.Body); err != nil {
		t.Fatal(err)
	}
	if code := p.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	shown.WriteString(p.out.text.String())
	text := shown.String()
	if !strings.Contains(text, `"outcome":"failed"`) || !strings.Contains(text, "sidenote_requests_total") {
		t.Fatalf("the log or the metrics are missing: %s", text)
	}
	for _, secret := range []string{acmeKey, umbraKey, upstreamKey, "canary-wrong"} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s is shown: …%s", secret, text[max(0, at-200):at+len(secret)])
		}
	}
}
