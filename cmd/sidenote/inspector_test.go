package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// browse requests a page like a browser, but follows no redirects.
func browse(t *testing.T, method, address, form, session string) (resp *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Cookie", session)
	if resp, err = http.DefaultTransport.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// The pages require the admin token if the port does; a session survives a reload.
func TestInspectorSessions(t *testing.T) {
	env := func(name string) (string, bool) { return "tok", name == "SIDENOTE_ADMIN_TOKEN" }
	p := serveIn(t, env, "--upstream", "http://127.0.0.1:1", "--state", t.TempDir())
	if resp, _ := browse(t, "GET", p.admin+"/requests", "", ""); resp.Header.Get("Location") != "/signin?next=%2Frequests" {
		t.Errorf("without a session: %d %s", resp.StatusCode, resp.Header)
	}
	resp, _ := browse(t, "POST", p.admin+"/signin", "token=tok", "")
	session, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	for range 2 {
		if resp, body := browse(t, "GET", p.admin+"/requests", "", session); resp.StatusCode != 200 || !strings.Contains(body, "<h1>Requests</h1>") {
			t.Errorf("with a session: %d %s", resp.StatusCode, body)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", p.admin+"/v1/reload", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer tok")
		again, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		again.Body.Close()
		if again.StatusCode != 200 {
			t.Fatalf("reload: %s", again.Status)
		}
	}
}

// A request is repeated under a policy that no tenant has, without calling the upstream. After a
// reload its page does not show another policy as its own, and the tenant's page shows the new one.
func TestInspectorTriesAPolicy(t *testing.T) {
	up, dir := newRecorder(t), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure := func(tokens int) {
		t.Helper()
		write("sidenote.yaml", fmt.Sprintf(`upstream: {base_url: %s/v1, api_key: {file: key}}
admin: {token: {file: token}}
state: ":memory:"
explain: {bodies: full}
knowledge: {docs: ./docs}
policies:
  default: {knowledge: [docs], context_tokens: %d}
  draft: {extends: default, retrieval: {top_k: 1}, context_tokens: 300}
tenants:
  acme: {keys: ["%x"], limits: {tokens_per_day: 100000}}
`, up.URL, tokens, sha256.Sum256([]byte(acmeKey))))
	}
	configure(2000)
	write("key", "sk-up")
	write("token", "t0ken")
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bonus": "The bonus is large: four thousand euros for everybody.", "pay": "A large bonus is paid in March, with the pay.",
		"leave": "Leave is thirty days a year.", "it": "The desk of IT answers by telephone.", "travel": "Trains are booked by the office.", "food": "Lunch is at noon.",
	} {
		write("docs/"+name+".md", "# "+name+"\n\n"+text+"\n")
	}
	p := serveIn(t, func(string) (string, bool) { return "", false }, "--config", filepath.Join(dir, "sidenote.yaml"))
	req, err := http.NewRequestWithContext(t.Context(), "POST", p.data+"/v1/chat/completions", strings.NewReader(bonusQuestion))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+acmeKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if status := resp.Header.Get("Sidenote-Status"); !strings.Contains(status, "sources=2;") {
		t.Fatal(status)
	}
	address, calls := p.admin+"/requests/"+resp.Header.Get("Sidenote-Id"), up.count()
	resp, _ = browse(t, "POST", p.admin+"/signin", "token=t0ken", "")
	session, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	shows := func(method, address, form string, want ...string) {
		t.Helper()
		resp, body := browse(t, method, address, form, session)
		body = regexp.MustCompile(`<[^>]*>|\s+`).ReplaceAllString(html.UnescapeString(body), " ")
		for _, part := range want {
			if !regexp.MustCompile(part).MatchString(body) {
				t.Errorf("%s %s: %d, no %s in %s", method, address, resp.StatusCode, part, body)
			}
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; { // it may be kept a little after its answer
		if resp, _ := browse(t, "GET", address, "", session); resp.StatusCode == 200 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%s: %s", address, resp.Status)
		}
	}
	shows("GET", address, "", `The policy applied unchanged\.`, `context_tokens +2000 +\S+sidenote.yaml:7:32 policy default`)
	shows("GET", address+"/ask", "", `the tenant’s own, default`, ` draft `, `is asked as it came, with its 95 bytes`)
	shows("POST", address+"/ask", "policy=draft", `Sources in the prompt +2 +1 +−1 `, `Budget +2,000 +300 +−1,700 `, `Policy +default [0-9a-f]{8} +draft [0-9a-f]{8} +other `, `bonus.md ?#0 +docs +\[1\] in`, `now out`)
	shows("POST", address+"/ask", "context_tokens=5000", `Sources in the prompt +2 +2 +same `, `Budget +2,000 +5,000 +\+3,000 `)
	if n := up.count(); n != calls {
		t.Errorf("asking again made %d calls of the upstream", n-calls)
	}
	shows("GET", p.admin+"/tenants/acme", "", `tokens_per_day +[1-9][0-9]* +100,000`, `limits.tokens_per_day +100000 +\S+sidenote.yaml:10:[0-9]+ tenant acme`)
	configure(900)
	reloaded(t, p, http.StatusOK)
	shows("GET", address, "", `the policy that this request had is not in force any more`)
	shows("GET", p.admin+"/tenants/acme", "", `context_tokens +900 +\S+sidenote.yaml:7:32 policy default`)
	shows("POST", address+"/ask", "", `Budget +2,000 +900 +−1,100 `)
}

// A demo that keeps running prints the address of the inspector, which shows its requests.
func TestDemoSaysWhereToLook(t *testing.T) {
	out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(out.ended)
		Run(ctx, []string{"demo", "--serve"}, strings.NewReader(""), out, io.Discard, func(string) (string, bool) { return "", false })
	}()
	defer func() { stop(); <-out.ended }()
	text := out.until(t, "All requests from now on:  ")
	address := regexp.MustCompile(`What the model was shown:  (http://127\.0\.0\.1:[0-9]+)/(requests/[0-9A-Z]{26})\nAll requests from now on:  (http://127\.0\.0\.1:[0-9]+)/\n`).FindStringSubmatch(text)
	if address == nil || address[1] != address[3] {
		t.Fatal(text)
	}
	if _, body := browse(t, "GET", address[1]+"/"+address[2], "", ""); !strings.Contains(body, "cache=miss") || !strings.Contains(body, "leave.md") {
		t.Errorf("the page of the request: %s", body)
	}
	if _, body := browse(t, "GET", address[1]+"/requests", "", ""); strings.Count(body, `title="injected; sources=4; `) != 2 {
		t.Error(body)
	}
}
