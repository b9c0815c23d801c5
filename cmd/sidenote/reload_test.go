package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy/admin"
)

// generation returns a configuration whose parts all carry a number: the upstream's key, which is
// in a file, and the text that each of two tenants gets.
func writeGeneration(t *testing.T, dir, upstream string, n int) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, "key"), fmt.Appendf(nil, "sk-%d\n", n), 0o600)
	text := fmt.Sprintf(`
upstream: {base_url: %s/v1, api_key: {file: key}}
admin: {token: {file: token}}
policies: {default: {on_empty: notice, components: [{name: generation, text: "generation %d"}]}}
tenants:
  acme: {keys: ["%x"]}
  umbra: {keys: ["%x"]}
`, upstream, n, sha256.Sum256([]byte(acmeKey)), sha256.Sum256([]byte(umbraKey)))
	fresh := filepath.Join(dir, "sidenote.yaml.new")
	if err = errors.Join(err, os.WriteFile(fresh, []byte(text), 0o600), os.Rename(fresh, filepath.Join(dir, "sidenote.yaml"))); err != nil {
		t.Fatal(err)
	}
}

// reloaded requests a reload and returns the answer.
func reloaded(t *testing.T, p *process, status int) (r admin.Reloaded, text string) {
	t.Helper()
	got, text := posted(t, p.admin+admin.ReloadPath, "t0ken", "")
	if got != status {
		t.Fatalf("reload: %d %s", got, text)
	}
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
	}
	return r, text
}

// fetched returns the answer at a URL of the admin port.
func fetched(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t0ken")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, resp.StatusCode, err)
	}
	return string(text)
}

// Rows P1, P3 and P5 of deploy/CONTRIBUTING.md: 100 reloads at 500 requests a second. Each request is answered
// under a single configuration: key, text and policy match. A broken configuration between any two
// changes nothing.
func TestP3HundredReloads(t *testing.T) {
	told := regexp.MustCompile(`generation (\d+)`)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		number := "none"
		if m := told.FindSubmatch(body); m != nil {
			number = string(m[1])
		}
		fmt.Fprintf(w, "%s %s", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer sk-"), number)
	}))
	defer up.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("t0ken"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeGeneration(t, dir, up.URL, 0)
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"), "--state", ":memory:")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	var asked, failed atomic.Int64
	answered := make(chan struct{})
	var mu sync.Mutex
	seen := map[string]int{}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	for i := range 16 {
		key := []string{acmeKey, umbraKey}[i%2]
		asking.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				asked.Add(1)
				text, err := generationOf(client, p.data, key)
				upstream, rest, _ := strings.Cut(text, " ")
				if err != nil || upstream != rest {
					failed.Add(1)
					t.Errorf("an answer of %q: %v", text, err)
					return
				}
				mu.Lock()
				seen[rest]++
				mu.Unlock()
				select {
				case answered <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	}
	const reloads = 100
	for n := 1; n <= reloads; n++ {
		if n%10 == 0 { // what is broken is said, and changes nothing
			broken := filepath.Join(dir, "sidenote.yaml.new")
			text := "upstream: {base_url: " + up.URL + "}\ntenants: {acme: {keys: ["
			if err := errors.Join(os.WriteFile(broken, []byte(text), 0o600), os.Rename(broken, filepath.Join(dir, "sidenote.yaml"))); err != nil {
				t.Fatal(err)
			}
			if _, text := reloaded(t, p, http.StatusUnprocessableEntity); !strings.Contains(text, "sidenote.yaml:2:") {
				t.Errorf("a broken configuration: %s", text)
			}
		}
		for range 5 { // which takes 10 ms at 500 requests a second
			select {
			case <-answered:
			case <-time.After(30 * time.Second):
				t.Fatal("no more answers")
			}
		}
		writeGeneration(t, dir, up.URL, n)
		reloaded(t, p, http.StatusOK)
		// A watcher may have reloaded first, so the changes are not compared. The next request sees
		// them all.
		if text, err := generationOf(client, p.data, acmeKey); err != nil || text != fmt.Sprintf("%d %d", n, n) {
			t.Errorf("after reload %d: %q, %v", n, text, err)
		}
	}
	stop()
	asking.Wait()
	if asked.Load() < 5*reloads || len(seen) < 2 || failed.Load() > 0 {
		t.Errorf("%d asked, %d failed, of %d configurations", asked.Load(), failed.Load(), len(seen))
	}
	t.Logf("%d requests of %d configurations", asked.Load(), len(seen))
}

// generationOf sends a chat and returns the numbers of the key and of the text that went upstream.
func generationOf(client *http.Client, url, key string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"How long is parental leave?"}]}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return string(text), err
}

// Row P1: a failed reload shows in metrics, /readyz and the log, and so does its repair; requests
// are served meanwhile. Tenants are added and removed, with their metrics.
func TestP1FailedReloadShows(t *testing.T) {
	up := newRecorder(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("t0ken"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeGeneration(t, dir, up.URL, 1)
	config := filepath.Join(dir, "sidenote.yaml")
	p := serve(t, "--config", config, "--state", ":memory:")
	good, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	shows := func(metric, ready string) {
		t.Helper()
		if text := fetched(t, p.admin+"/metrics"); !strings.Contains(text, "\n"+metric+"\n") {
			t.Errorf("metrics lack %s", metric)
		}
		if text := fetched(t, p.admin+"/readyz"); !strings.Contains(text, ready) {
			t.Errorf("readyz: %s, want %s", text, ready)
		}
	}
	shows("sidenote_config_last_reload_successful 1", `{"status":"ready"}`)
	if err := os.WriteFile(config, append(good, "colour: red\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	p.out.until(t, "sidenote.yaml:8:1: colour")
	shows("sidenote_config_last_reload_successful 0", `"reasons":["configuration: could not be read again at `)
	if text, err := generationOf(http.DefaultClient, p.data, acmeKey); err != nil {
		t.Errorf("%s, %v", text, err)
	}
	more := strings.Replace(string(good), "  umbra:", "  zeta:", 1) + "concurrency: 7\n" // the key is zeta's now
	if err := os.WriteFile(config, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	p.out.until(t, "tenants added: zeta; tenants removed: umbra; needs a restart and stays as it was: concurrency")
	shows("sidenote_config_last_reload_successful 1", `{"status":"ready"}`)
	if text, err := generationOf(http.DefaultClient, p.data, umbraKey); err != nil {
		t.Errorf("%s, %v", text, err)
	}
	// A request is counted a moment after its answer.
	for range 1000 {
		if strings.Contains(fetched(t, p.admin+"/metrics"), `sidenote_requests_total{outcome="injected",tenant="zeta"} 1`) {
			break
		}
	}
	shows(`sidenote_requests_total{outcome="injected",tenant="zeta"} 1`, "ready")
	shows(`sidenote_metrics_overflow_total 0`, "ready")
	if r, _ := reloaded(t, p, http.StatusOK); len(r.Tenants)+len(r.Keys) != 0 || len(r.Restart) != 1 || r.Restart[0] != "concurrency" {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	p.out.until(t, `cannot be read: no such file`)
	shows("sidenote_config_last_reload_successful 0", `"degraded"`)
}
