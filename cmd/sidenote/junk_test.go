package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// junkKinds are requests with names that are not configured: %[1]d is a different number in each,
// KEY is a tenant's key. The expected answers show that each request got as far as intended.
var junkKinds = []struct {
	what   string
	status int
	head   string
	body   string
}{
	{"hosts, agents and other headers", 401, "POST /v1/chat/completions HTTP/1.1\r\nHost: junk-%[1]d.test\r\nUser-Agent: junk/%[1]d\r\nX-Junk-%[1]d: %[1]d\r\nAccept: junk/%[1]d", `{}`},
	{"keys", 401, "GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sk-junk-%[1]d", ""},
	{"tenants", 401, "GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY\r\nSidenote-Tenant: junk-%[1]d", ""},
	{"paths", 403, "GET /v1/junk-%[1]d HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY", ""},
	{"methods", 403, "JUNK%[1]d /v1/junk HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY", ""},
	{"models that are not allowed", 404, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY", `{"model":"strange-junk-%[1]d","messages":[]}`},
	{"bases", 200, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY\r\nSidenote-Knowledge: junk-%[1]d", `{"model":"junk-%[1]d","messages":[{"role":"user","content":"hi"}]}`},
	{"modes", 400, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY\r\nSidenote-Mode: junk%[1]d", `{"model":"junk-%[1]d","messages":[{"role":"user","content":"hi"}]}`},
	{"models of the list, deployments and pages", 200, "POST /openai/deployments/junk-%[1]d/chat/completions?junk=%[1]d HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY\r\nX-Forwarded-For: 10.0.0.%[1]d\r\nOpenAI-Organization: junk-%[1]d",
		`{"model":"junk-of-ours-%[1]d","user":"junk-%[1]d","messages":[{"role":"user","content":"hi"}]}`},
}

// P12, T30: names that are not configured, anywhere in a request on any port, add no series to the
// metrics.
func TestP12JunkAddsNoSeries(t *testing.T) {
	const key = "sk-sidenote-junk"
	u := newRecorder(t)
	dir := writeFiles(t, map[string][]byte{"c.yaml": fmt.Appendf(nil, `
upstream: {base_url: %s/v1, api_key: {env: KEY}}
telemetry: {log: {requests: none}}
explain: 0
policies: {default: {models: ["junk-*", "gpt-*"], routes: [/chat/completions, /models]}}
tenants: {acme: {keys: ["%x"]}}
`, u.URL, sha256.Sum256([]byte(key)))})
	env := func(name string) (string, bool) {
		if name == "KEY" {
			return "sk-up", true
		}
		return "", false
	}
	p := serveIn(t, env, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:")
	series := func() (names []string) {
		resp, err := http.Get(p.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "sidenote_") {
				names = append(names, name)
			}
		}
		return names
	}
	var conn net.Conn
	var in *bufio.Reader
	ask := func(kind, number int) {
		t.Helper()
		if conn == nil {
			var err error
			if conn, err = net.Dial("tcp", strings.TrimPrefix(p.data, "http://")); err != nil {
				t.Fatal(err)
			}
			in = bufio.NewReader(conn)
		}
		k := junkKinds[kind]
		number *= len(junkKinds)
		head, body := strings.ReplaceAll(strings.ReplaceAll(k.head, "KEY", key), "%[1]d", fmt.Sprint(number)), strings.ReplaceAll(k.body, "%[1]d", fmt.Sprint(number))
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := fmt.Fprintf(conn, "%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s, %d: %v", k.what, number, err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != k.status {
			t.Errorf("%s, %d: status %d, %s, %v", k.what, number, resp.StatusCode, answer, err)
		}
		if resp.Close {
			_ = conn.Close()
			conn = nil
		}
	}
	for kind := range junkKinds { // what they count as may be new once
		// Usage of models without their own row is compared after more than 512 of them were
		// counted.
		for number := range 600 {
			if ask(kind, 1_000_000+number); junkKinds[kind].status != 200 {
				break
			}
		}
	}
	if t.Failed() {
		return
	}
	before := series()
	total := 100_000
	if testing.Short() {
		total = 2_000
	}
	for i := range total {
		kind := i % len(junkKinds)
		if junkKinds[kind].status == 200 && i%50 > 0 { // those that go up take longer
			kind = 0
		}
		ask(kind, 2+i)
	}
	if conn != nil {
		_ = conn.Close()
	}
	after := series()
	if slices.Sort(before); len(before) < 100 {
		t.Errorf("%d series to begin with", len(before))
	}
	for _, name := range after {
		if _, known := slices.BinarySearch(before, name); !known {
			t.Errorf("a new series: %s", name)
		}
		if strings.Contains(name, "junk") {
			t.Errorf("junk in %s", name)
		}
	}
}
