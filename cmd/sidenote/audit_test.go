package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sidenote/proxy/audit"
)

// auditedSince returns the events in a file without the first n.
func auditedSince(t *testing.T, path string, n int) (all []audit.Event) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all[n:]
}

// eventText describes an event without what differs from run to run.
func eventText(e *audit.Event) string {
	text := fmt.Sprintf("%s %s %s %s", e.Action, e.Object, strings.Join(e.Documents, ","), e.Result)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return strings.Join(strings.Fields(text+" by "+e.Token+e.By), " ")
}

// Every change has a line in the audit when its answer arrives, with the token's name, the address and
// the id of the request, which the answer has too; so have refused tokens and readings of requests.
func TestAuditOfTheAdminPort(t *testing.T) {
	central, dir := newScopedCentral(t)
	central.stop()
	config, logged := filepath.Join(dir, "central.yaml"), filepath.Join(dir, "audit.log")
	text, err := os.ReadFile(config)
	must(t, err, os.WriteFile(config, append(text, "audit: {file: audit.log}\n"...), 0o600))
	p := serve(t, "--config", config, "--state", filepath.Join(t.TempDir(), "state"))
	const ops, gone = "ops-0123456789abcdef", "gone-0123456789abcdef"
	seen := 0
	f := func(token, method, request, body string, status int, want string) {
		t.Helper()
		p.token = token
		resp, err := http.DefaultClient.Do(p.request(t, method, request, body))
		answer := answered(t, resp, err)
		if resp.StatusCode != status {
			t.Errorf("%s %s: %d %s", method, request, resp.StatusCode, answer)
		}
		var all []string
		for _, e := range auditedSince(t, logged, seen) {
			seen++
			all = append(all, eventText(&e))
			if e.Kind != "audit" || e.Address != "127.0.0.1" || e.Request == "" || e.Request != resp.Header.Get("Sidenote-Id") {
				t.Errorf("%s %s: %+v with id %s", method, request, e, resp.Header.Get("Sidenote-Id"))
			}
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("%s %s: got %q, want %q", method, request, got, want)
		}
	}
	f(ops, "POST", "/v1/knowledge", newBase, 201, "create_base notes ok by ops")
	f(ops, "POST", "/v1/knowledge", newBase, 200, "")
	f(crmToken, "PUT", "/v1/knowledge/secret/documents/plan.md", `{"text":"# Plan"}`, 201, "put secret plan.md ok by crm")
	f(crmToken, "PUT", "/v1/knowledge/secret/documents/plan.md", `{"text":"# Plan"}`, 200, "put secret plan.md ok by crm")
	f(crmToken, "POST", "/v1/knowledge/secret/documents", `{"documents":[{"id":"a","text":"a"},{"id":"b","text":"b"}]}`, 200, "put secret a,b ok by crm")
	f(crmToken, "PUT", "/v1/knowledge/handbook/documents/x", `{"text":"x"}`, 404, "")
	f(ops, "PUT", "/v1/knowledge/handbook/documents/x", `{"text":"x"}`, 409, "put handbook x refused (from_folder) by ops")
	f(crmToken, "DELETE", "/v1/knowledge/secret/documents/a", "", 200, "delete secret a ok by crm")
	f(crmToken, "DELETE", "/v1/knowledge/secret/documents/a", "", 404, "delete secret a refused (not_found) by crm")
	f(crmToken, "POST", "/v1/knowledge/secret/forget", `{"documents":["b"]}`, 200, "forget secret b ok by crm")
	f(ops, "POST", "/v1/knowledge/handbook/ingest", "", 202, "ingest handbook ok by ops")
	f(ops, "DELETE", "/v1/knowledge/notes", "", 200, "delete_base notes ok by ops")
	f(ops, "POST", "/v1/mode", `{"mode":"off","tenant":"acme"}`, 200, `mode tenant "acme" ok by ops`)
	f(ops, "POST", "/v1/mode", `{"mode":"auto","tenant":"acme"}`, 200, `mode tenant "acme" ok by ops`)
	f(edgeToken, "GET", "/v1/keys", "", 403, "token GET /v1/keys refused (insufficient_scope) by edge")
	f(edgeToken, "GET", "/v1/tools?tenant=acme", "", 403, "token GET /v1/tools refused (insufficient_scope) by edge")
	f(gone, "GET", "/v1/keys", "", 401, "token GET /v1/keys refused (invalid-api-key) by gone")
	f("guessed", "GET", "/v1/keys", "", 401, "token GET /v1/keys refused (invalid-api-key) by")
	f("", "GET", "/v1/keys", "", 401, "")
	f(ops, "GET", "/v1/keys", "", 200, "")
	f(ops, "POST", "/v1/reload", "", 200, "reload ok by ops")

	resp, err := http.DefaultClient.Do(chatAs(t, p, acmeKey))
	if answered(t, resp, err); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	id := resp.Header.Get("Sidenote-Id")
	p.answers(t, "GET", "/v1/explain/"+id, 200) // a request is kept after its answer has ended
	seen = len(auditedSince(t, logged, 0))
	f(ops, "GET", "/v1/explain/"+id, "", 200, "explain "+id+" ok by ops")
	page := func(method, path, form, session, want string) *http.Response {
		t.Helper()
		resp, body := browse(t, method, p.admin+path, form, session)
		all := auditedSince(t, logged, seen)
		seen += len(all)
		if len(all) != 1 || eventText(&all[0]) != want || all[0].Address != "127.0.0.1" || all[0].Request != resp.Header.Get("Sidenote-Id") {
			t.Errorf("%s %s: %d %+v, want %s: %s", method, path, resp.StatusCode, all, want, body)
		}
		return resp
	}
	page("POST", "/signin", "token=guessed", "", "token POST /signin refused (invalid-api-key) by")
	resp, _ = browse(t, "POST", p.admin+"/signin", "token="+ops, "")
	session, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	page("GET", "/requests/"+id, "", session, "explain "+id+" ok by ops")
	page("POST", "/knowledge/secret/delete", "id=plan.md", session, "delete secret plan.md ok by ops")

	p.token = ops
	metrics := p.asks(t, "GET", "/metrics", "", 200)
	for _, line := range []string{
		`sidenote_audit_events_total{action="put",result="ok"} 3`, `sidenote_audit_events_total{action="put",result="refused"} 1`,
		`sidenote_audit_events_total{action="token",result="refused"} 5`, `sidenote_audit_events_total{action="explain",result="ok"} 3`, `sidenote_audit_write_errors_total 0`,
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if info, err := os.Stat(logged); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	lines, err := os.ReadFile(logged)
	if must(t, err); strings.Contains(string(lines), "0123456789abcdef") || strings.Contains(string(lines), "guessed") {
		t.Error("the audit has a token")
	}
}

func chatAs(t *testing.T, p *process, key string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", p.data+"/v1/chat/completions", strings.NewReader(bonusQuestion))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	return req
}

// A reload by a signal or a changed file is in the audit with old and new values, secrets by digest. A
// file of the audit that was moved away is made again; one that cannot be written degrades /readyz and
// refuses no change.
func TestAuditOfReloadsAndOfAMovedFile(t *testing.T) {
	t.Parallel()
	dir, up := t.TempDir(), newRecorder(t)
	path, config := filepath.Join(dir, "log", "audit.log"), filepath.Join(dir, "sidenote.yaml")
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), 0o600), os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)))
	}
	must(t, os.Mkdir(filepath.Join(dir, "log"), 0o700))
	write("token", "ops-0123456789abcdef")
	text := fmt.Sprintf("upstream: %s/v1\nstate: state\nknowledge: {notes: {engine: embedded}}\naudit: {file: log/audit.log}\npolicies: {default: {context_tokens: 1000}}\nadmin: {tokens: [{name: ops, scope: admin, file: token}]}\n", up.URL)
	write("sidenote.yaml", text)
	data, err := freeAddress()
	must(t, err)
	adminAt, err := freeAddress()
	must(t, err)
	out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	cmd := exec.Command(released(t), "serve", "--config", config, "--listen", data, "--admin", adminAt)
	cmd.Stderr = out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		close(out.ended)
	}()
	defer func() { _ = cmd.Process.Kill() }()
	p := &process{data: "http://" + data, admin: "http://" + adminAt, out: out, token: "ops-0123456789abcdef"}
	out.until(t, "in this process")
	p.readyz(t, `{"status":"ready"}`)
	write("sidenote.yaml", strings.Replace(text, "context_tokens: 1000", "context_tokens: 900", 1))
	out.until(t, "a file has changed): tenants changed: default (context_tokens)")
	write("token", "ops-fedcba9876543210")
	out.until(t, "changed: admin.tokens.ops.file")
	p.token = "ops-fedcba9876543210"
	all := auditedSince(t, path, 0)
	if len(all) != 2 || eventText(&all[0]) != "reload ok by a file has changed" || len(all[0].Changes) != 1 || all[0].Changes[0] != (audit.Change{Key: "tenants.default.context_tokens", Old: "1000", New: "900"}) {
		t.Fatalf("got %+v", all)
	}
	if c := all[1].Changes; len(c) != 1 || c[0].Key != "admin.tokens.ops.file" || c[0].Old != c[0].New || len(c[0].OldSHA256) != 8 || len(c[0].NewSHA256) != 8 || c[0].OldSHA256 == c[0].NewSHA256 {
		t.Errorf("got %+v", c)
	}
	must(t, os.Rename(path, path+".1"))
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/a", `{"text":"a"}`, 201)
	if all := auditedSince(t, path, 0); len(all) != 1 || eventText(&all[0]) != "put notes a ok by ops" {
		t.Errorf("in a new file: %+v", all)
	}
	if !signal.Ignored(syscall.SIGHUP) { // as it is for all of a test run under nohup
		must(t, os.Rename(path, path+".2"), cmd.Process.Signal(syscall.SIGHUP))
		out.until(t, "configuration: read again (SIGHUP): nothing has changed")
		if all := auditedSince(t, path, 0); len(all) != 1 || eventText(&all[0]) != "reload ok by SIGHUP" {
			t.Errorf("after SIGHUP: %+v", all)
		}
	}
	must(t, os.RemoveAll(filepath.Join(dir, "log")))
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/b", `{"text":"b"}`, 201)
	p.readyz(t, "audit: open ")
	out.until(t, `"documents":["b"]`)
	if metrics := p.asks(t, "GET", "/metrics", "", 200); !strings.Contains(metrics, "\nsidenote_audit_write_errors_total 1\n") {
		t.Error("the metric says that all is written")
	}
	must(t, os.Mkdir(filepath.Join(dir, "log"), 0o700))
	p.asks(t, "DELETE", "/v1/knowledge/notes/documents/b", "", 200)
	p.readyz(t, `{"status":"ready"}`)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	must(t, <-ended)
}

// A command that changes the state folder itself leaves lines, too.
func TestAuditOfCommands(t *testing.T) {
	dir := t.TempDir()
	config, path := filepath.Join(dir, "sidenote.yaml"), filepath.Join(dir, "audit.log")
	must(t, os.WriteFile(config, []byte(fmt.Sprintf("knowledge: {docs: %s}\nstate: state\naudit: {file: audit.log}\n", handbook(t))), 0o600))
	start(t, noEnv, "knowledge", "create", "notes", "--config", config).ends(t, exitDone, "", "")
	start(t, noEnv, "ingest", "--config", config).ends(t, exitDone, "", "")
	start(t, noEnv, "knowledge", "delete", "notes", "--config", config).ends(t, exitDone, "", "")
	var all []string
	for _, e := range auditedSince(t, path, 0) {
		all = append(all, strings.ReplaceAll(eventText(&e), userName(), "USER"))
	}
	const want = "create_base notes ok by command of USER; ingest docs ok by command of USER; delete_base notes ok by command of USER"
	if got := strings.Join(all, "; "); got != want {
		t.Errorf("got %s", got)
	}
}

// With audit: stderr the lines are between those of the log, and none is left out as a repetition.
func TestAuditInTheLog(t *testing.T) {
	config := written(t, "sidenote.yaml", "knowledge: {notes: {engine: embedded}}\naudit: stderr\n")
	p := serve(t, "--config", config, "--upstream", newRecorder(t).URL, "--state", filepath.Join(t.TempDir(), "state"))
	for _, status := range []int{201, 200, 200} {
		p.asks(t, "PUT", "/v1/knowledge/notes/documents/a", `{"text":"a"}`, status)
	}
	p.stop()
	if n := strings.Count(p.out.text.String(), `"msg":"audit","action":"put","object":"notes","documents":["a"],"result":"ok","token":"state.admin-token"`); n != 3 {
		t.Errorf("%d lines in %s", n, p.out.text.String())
	}
}

// What a watched folder's own changes bring into a base is in the audit.
func TestAuditOfAWatchedFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	write("docs/a.md", "# A\n\nThe first.\n")
	write("sidenote.yaml", "upstream: http://127.0.0.1:9/v1\nstate: state\nknowledge: {docs: docs}\naudit: {file: audit.log}\n")
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
	write("docs/b.md", "# B\n\nThe second.\n")
	p.out.until(t, "knowledge docs: 1 document new or changed")
	if all := auditedSince(t, filepath.Join(dir, "audit.log"), 0); len(all) != 1 || eventText(&all[0]) != "ingest docs ok by its folder" {
		t.Errorf("got %+v", all)
	}
}
