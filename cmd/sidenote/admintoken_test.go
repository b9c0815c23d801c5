package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/option"
)

// gives sends a request with a token, "" for none, and checks the status.
func (p *process) gives(t *testing.T, token, method, path, body string, status int) {
	t.Helper()
	was := p.token
	p.token = token
	p.asks(t, method, path, body, status)
	p.token = was
}

const newBase, search = `{"id":"notes"}`, `{"query":"parental leave"}`

// If a token is configured, all calls but probes need it; the token of the state folder is not
// accepted instead.
func TestServeWantsItsConfiguredToken(t *testing.T) {
	config := written(t, "sidenote.yaml", "admin: {token: {file: "+written(t, "token", "t0ken-of-file\n")+"}}\n")
	state := filepath.Join(t.TempDir(), "state")
	p := serveIn(t, tokenInEnv, "--config", config, "--upstream", newRecorder(t).URL, "--knowledge", "docs="+handbook(t), "--state", state)
	if p.token == "" {
		t.Error("the state folder has no token")
	}
	for token, status := range map[string]int{"": 401, "t0ken-of-file": 401, p.token: 401, "t0ken-of-env": 200} {
		p.gives(t, token, "POST", "/v1/knowledge", `{"id":"docs"}`, status)
		p.gives(t, token, "POST", "/v1/search", search, status)
		p.gives(t, token, "GET", "/metrics", "", status)
		p.gives(t, token, "GET", "/healthz", "", 200)
	}
	p.stop()
	if said := p.out.text.String(); strings.Contains(said, "t0ken") || strings.Contains(said, p.token) {
		t.Errorf("a token was said: %s", said)
	}
}

// With a token from the environment the admin port may be open to other machines.
func TestTokenOfTheEnvironmentOpensThePort(t *testing.T) {
	args := []string{"check", "--upstream", "http://127.0.0.1:9", "--admin", "0.0.0.0:8081", "--state", ":memory:"}
	start(t, noEnv, args...).ends(t, exitUsage, "", "so admin.token must be set")
	start(t, tokenInEnv, args...).ends(t, exitDone, "ok", "")
	blank := func(name string) (string, bool) { return " ", name == "SIDENOTE_ADMIN_TOKEN" }
	start(t, blank, args...).ends(t, exitUsage, "", "SIDENOTE_ADMIN_TOKEN is not set")
}

// Without a configured token, writes need the token that is made for the state folder, on the
// writer and on its followers; reads need none.
func TestWritesNeedTheStateFoldersToken(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "docs=" + handbook(t), "--state", state}
	p := serve(t, args...)
	token := p.token
	if len(token) < 40 {
		t.Fatalf("token %q", token)
	}
	for _, bad := range []string{"", token[1:], token + "x"} {
		p.gives(t, bad, "POST", "/v1/knowledge", newBase, 401)
		p.gives(t, bad, "PUT", "/v1/knowledge/docs/documents/x", `{"text":"x"}`, 401)
		p.gives(t, bad, "POST", "/v1/knowledge/docs/ingest", "", 401)
		p.gives(t, bad, "DELETE", "/v1/knowledge/docs", "", 401)
		p.gives(t, bad, "POST", "/v1/search", search, 200)
		p.gives(t, bad, "POST", "/v1/vector_stores/docs/search", search, 200)
		p.gives(t, bad, "POST", "/v1/rewrite", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 200)
	}
	const page, text = "Origin: http://localhost:3000", "Content-Type: text/plain"
	p.sends(t, 403, page, text)
	p.sends(t, 403, page)
	p.sends(t, 415, text)
	p.sends(t, 201)
	follower := serve(t, append(args, "--follow")...)
	follower.gives(t, "", "POST", "/v1/knowledge", newBase, 401)
	follower.gives(t, token, "POST", "/v1/knowledge", newBase, 409)
	follower.gives(t, "", "POST", "/v1/search", search, 200)
}

// sends creates a base with the token and additional header lines.
func (p *process) sends(t *testing.T, status int, lines ...string) {
	t.Helper()
	req := p.request(t, "POST", "/v1/knowledge", newBase)
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != status {
		t.Errorf("%v: %s, want %d", lines, resp.Status, status)
	}
}

// The calls shown in the README on knowledge include what a write needs.
func TestPageShowsWritesAsTheyAre(t *testing.T) {
	text, err := os.ReadFile("../../retrieval/README.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`curl .*:8081/.*`).FindAllString(string(text), -1)
	for _, call := range calls {
		if strings.Contains(call, " -d ") && !strings.Contains(strings.ToLower(call), "content-type: application/json") || !strings.Contains(call, "Authorization: Bearer") {
			t.Error(call)
		}
	}
	if len(calls) == 0 {
		t.Error("there is none")
	}
}

// A Sidenote searches another one with a token that is for reading only.
func TestReplicaSearchesWithTheReadToken(t *testing.T) {
	config := written(t, "central.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %s}\nadmin: {token: {file: %s}, read_token: {file: %s}}\n",
		newRecorder(t).URL, handbook(t), written(t, "token", "s3cret"), written(t, "read", "r3ad")))
	central := serve(t, "--config", config, "--state", filepath.Join(t.TempDir(), "state"))
	up := newRecorder(t)
	edge := serve(t, "--config", edgeConfig(t, up.URL, central.admin, written(t, "read", "r3ad"), "5s"))
	var sent []byte
	sdk := sdkClient(edge, &sent)
	var resp *http.Response
	if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), option.WithResponseInto(&resp)); err != nil {
		t.Fatal(err)
	}
	if s := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(s, "injected; sources=1; ") {
		t.Errorf("Sidenote-Status: %s", s)
	}
	central.gives(t, "r3ad", "GET", "/v1/knowledge", "", 200)
	central.gives(t, "r3ad", "POST", "/v1/knowledge", newBase, 403)
	central.gives(t, "r3ad", "DELETE", "/v1/knowledge/handbook", "", 403)
	central.gives(t, "s3cret", "POST", "/v1/knowledge", newBase, 201)
	// If nothing is kept and no token is configured, writes are refused.
	edge.asks(t, "POST", "/v1/knowledge", newBase, 403, "There is no admin token to write with: the state is in memory. Set SIDENOTE_ADMIN_TOKEN or admin.token.")
	central.stop()
	if said := central.out.text.String(); strings.Contains(said, "r3ad") || strings.Contains(said, "s3cret") {
		t.Errorf("a token was said: %s", said)
	}
}
