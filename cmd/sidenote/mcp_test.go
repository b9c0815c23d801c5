package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const mcpConfig = `
upstream: http://127.0.0.1:9/v1
knowledge: {docs: {path: docs, attributes: {audience: staff, url: "https://intranet.example/leave"}}}
policies:
  default: {knowledge: [docs]}
  public: {extends: default, filters: [{type: eq, key: audience, value: public}]}
tenants:
  staff: {keys: [{sha256: %x, name: laptop}], policy: default}
  guests: {keys: ["%x"], policy: %s}
`

// mcpFolder has the configuration, under which guests have a policy, and a document.
func mcpFolder(t *testing.T, guests string) (config string) {
	t.Helper()
	dir := t.TempDir()
	config = filepath.Join(dir, "c.yaml")
	writeMCPConfig(t, config, guests)
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "docs", "leave.md"), []byte("# Leave\n\nEvery parent may take 99 weeks of leave.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func writeMCPConfig(t *testing.T, config, guests string) {
	t.Helper()
	text := fmt.Sprintf(mcpConfig, sha256.Sum256([]byte("sk-canary-staff")), sha256.Sum256([]byte("sk-canary-guests")), guests)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bearer sends a key with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func connectMCP(t *testing.T, over mcp.Transport, version string) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), over, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func callMCP(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (text string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// The official SDK's clients of two tenants call a running Sidenote. A reload and the kill switch
// take effect with the next call, also in open sessions. The log contains no question, no result
// and no key.
func TestMCP(t *testing.T) {
	config := mcpFolder(t, "public")
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	p := serve(t, "--config", config, "--state", state, "--mcp", address)
	if said := p.out.until(t, address); !strings.Contains(said, "http://"+address+"/mcp") {
		t.Error(said)
	}
	over := func(key bearer) mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: "http://" + address + "/mcp", HTTPClient: &http.Client{Transport: key}}
	}
	run := func(args ...string) {
		t.Helper()
		var said strings.Builder
		args = append(args, "--config", config, "--state", state)
		if code := Run(t.Context(), args, strings.NewReader(""), &said, &said, noEnv); code != exitDone {
			t.Fatalf("%s: %d %s", args, code, said.String())
		}
	}
	staff, guests := connectMCP(t, over("sk-canary-staff"), "2025-11-25"), connectMCP(t, over("sk-canary-guests"), "2025-11-25")
	modern := connectMCP(t, over("sk-canary-staff"), "")
	var found struct{ Results []struct{ ID, URL string } }
	query := map[string]any{"query": "how many weeks of leave"}
	if err := json.Unmarshal([]byte(callMCP(t, staff, "search", query)), &found); err != nil || len(found.Results) != 1 || found.Results[0].URL != "https://intranet.example/leave" {
		t.Fatal(found, err)
	}
	id := map[string]any{"id": found.Results[0].ID}
	for _, s := range []*mcp.ClientSession{staff, modern} {
		if text := callMCP(t, s, "fetch", id); !strings.Contains(text, "99 weeks") {
			t.Error(text)
		}
	}
	if text := callMCP(t, guests, "fetch", id); text != "Not found: docs:leave.md:0" {
		t.Error(text)
	}
	writeMCPConfig(t, config, "default")
	run("reload")
	if text := callMCP(t, guests, "fetch", id); !strings.Contains(text, "99 weeks") {
		t.Error(text)
	}
	run("mode", "off", "--tenant", "guests")
	if text := callMCP(t, guests, "fetch", id); text != "The knowledge is switched off." {
		t.Error(text)
	}
	if text := callMCP(t, staff, "fetch", id); !strings.Contains(text, "99 weeks") {
		t.Error(text)
	}
	resp, err := http.Post("http://"+address+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil || resp.StatusCode != 401 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	_ = staff.Close()
	resp, err = http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	for _, line := range []string{
		`sidenote_mcp_calls_total{result="ok",tenant="staff",tool="fetch"} 3`, `sidenote_mcp_calls_total{result="ok",tenant="staff",tool="search"} 1`,
		`sidenote_mcp_calls_total{result="refused",tenant="guests",tool="fetch"} 1`, `sidenote_mcp_calls_total{result="off",tenant="guests",tool="fetch"} 1`,
		`sidenote_mcp_refused_total{reason="invalid_api_key"} 1`, `sidenote_mcp_call_duration_seconds_count{tool="fetch"} 6`, "\nsidenote_mcp_sessions 1\n",
	} {
		if !strings.Contains(string(metrics), line) {
			t.Errorf("no %s in the metrics", line)
		}
	}
	if code := p.stop(); code != exitDone { // guests' session is open
		t.Errorf("stopped with %d", code)
	}
	said := p.out.text.String()
	for _, want := range []string{
		`"msg":"mcp call","tenant":"staff","tool":"search","result":"ok","duration_ms":`, `"by":"key","key":"laptop","policy":"default"}`,
		`"msg":"mcp request refused","tenant":"","status":401,"reason":"invalid-api-key","denied":"no-credential"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in the log:\n%s", want, said)
		}
	}
	for _, secret := range []string{"canary", "weeks", "leave.md:0", "intranet"} {
		if strings.Contains(said+string(metrics), secret) {
			t.Errorf("%q is shown", secret)
		}
	}
}

// A client that starts sidenote mcp is served as the tenant, and stdout carries only the protocol.
func TestMCPOnStdio(t *testing.T) {
	config := mcpFolder(t, "public")
	for tenant, want := range map[string]string{"staff": "99 weeks", "guests": "Not found: docs:leave.md:0"} {
		var log strings.Builder
		cmd := exec.CommandContext(t.Context(), released(t), "mcp", "--config", config, "--tenant", tenant)
		cmd.Stderr = &log
		s := connectMCP(t, &mcp.CommandTransport{Command: cmd}, "")
		tools, err := s.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 6 || !strings.Contains(tools.Tools[0].Description, "docs") {
			t.Fatal(tools, err)
		}
		if text := callMCP(t, s, "fetch", map[string]any{"id": "docs:leave.md:0"}); !strings.Contains(text, want) {
			t.Errorf("%s: %s", tenant, text)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", tenant, err)
		}
		if !strings.Contains(log.String(), `msg="mcp call" tenant=`+tenant+` tool=fetch`) || strings.Contains(log.String(), "weeks") {
			t.Errorf("%s: %s", tenant, log.String())
		}
	}
}
