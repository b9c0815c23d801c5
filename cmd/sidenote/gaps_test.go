package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/proxy/gaps"
	"sidenote/retrieval/knowledge/store"
)

// The questions that nothing was found for are on the page and in the command, with and without a
// running serve; a document that answers them is seen; a ring of another key, and none, are told.
func TestGaps(t *testing.T) {
	dir, up := t.TempDir(), newRecorder(t)
	write := func(name, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("docs/leave.md", "# Leave\n\nParental leave is paid for 16 weeks.\n")
	write("docs/travel.md", "# Travel\n\nTrains are booked in second class.\n")
	write("key", "k1 "+strings.Repeat("A", 42)+"A=\n")
	write("sidenote.yaml", "upstream: "+up.URL+"/v1\nstate: state\nknowledge: {docs: docs}\npolicies: {default: {record: {share: 100%, bodies: questions, keep: 7d, max: 16MiB, key: {file: key}}}}\n")
	config := filepath.Join(dir, "sidenote.yaml")
	if code, _, text := gapsRun(t, config); code != exitFailed || !strings.Contains(text, "records") {
		t.Errorf("without records: %d %s", code, text)
	}
	p := serve(t, "--config", config)
	for _, question := range []string{"How do I rent a bike?", "What does renting a bike cost?", "Where is the defibrillator?", "How long is parental leave paid?", "how do I rent a bike?"} {
		body, err := json.Marshal(map[string]any{"model": "gpt-4o-mini", "messages": []map[string]string{{"role": "user", "content": question}}})
		must(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(string(body)))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		answered(t, resp, err)
	}
	var report gaps.Report
	eventually(t, func() string {
		code, out, text := gapsRun(t, config, "--json")
		if report = (gaps.Report{}); code != exitDone || json.Unmarshal([]byte(out), &report) != nil || report.Records < 5 {
			return out + text
		}
		return ""
	})
	if report.Searched != 5 || report.Gaps < 4 || len(report.Groups) < 2 || report.Groups[0].Count != 3 || !strings.Contains(report.Groups[0].Question, "bike") {
		t.Errorf("got %+v", report)
	}
	token, err := store.AdminToken(filepath.Join(dir, "state"))
	must(t, err)
	p.token = token
	p.asks(t, "GET", "/gaps/json", "", 200, `bike?`)
	p.token = ""
	if resp, body := browse(t, "GET", p.admin+"/gaps", "", ""); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/signin?next=%2Fgaps" {
		t.Errorf("without a token: %d %s", resp.StatusCode, body)
	}
	write("docs/bikes.md", "# Bikes\n\nRent a bike in the portal. Renting a bike costs 40 euros a month.\n")
	p.out.until(t, "1 document new or changed")
	p.stop()
	code, out, text := gapsRun(t, config)
	if code != exitDone || !strings.Contains(out, "3 would get sources now; nearest bikes.md of docs") {
		t.Errorf("%d %s%s", code, out, text)
	}
	code, out, text = gapsRun(t, config, "--csv", "--since", "1d")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != exitDone || lines[0] != "question,asked,no_source,feedback,uncited,low_support,answered_now,nearest_kb_id,nearest_doc_id,nearest_relevance,first,last" || len(lines) != len(report.Groups)+1 {
		t.Errorf("%d %s%s", code, out, text)
	}
	if code, out, text = gapsRun(t, config, "--tenant", "nobody"); code != exitDone || !strings.HasPrefix(out, "0 questions recorded") {
		t.Errorf("%d %s%s", code, out, text)
	}
	write("key", "k2 "+strings.Repeat("C", 42)+"A=\n")
	if code, _, text = gapsRun(t, config); code != exitFailed || !strings.Contains(text, "k1") || !strings.Contains(text, "k2") {
		t.Errorf("with another key: %d %s", code, text)
	}
	recorded := filepath.Join(dir, "state", "records", "default")
	one, two := "k1 "+strings.Repeat("A", 42)+"A=\n", "k2 "+strings.Repeat("C", 42)+"A=\n"
	before, err := os.ReadDir(recorded)
	must(t, err)
	write("key", two+one)
	p = serve(t, "--config", config)
	p.chats(t)
	p.wrote(t, 1)
	p.stop()
	if after, err := os.ReadDir(recorded); err != nil || len(after) == len(before) {
		t.Fatalf("no new segment: %v", err)
	}
	write("key", two)
	if code, out, text = gapsRun(t, config); code != exitPart || !strings.Contains(out, "1 question recorded") || !strings.Contains(text, "k1") {
		t.Errorf("with one of two keys: %d %s%s", code, out, text)
	}
	exported := start(t, noEnv, "replay", "--config", config, "--export", filepath.Join(dir, "q.csv"))
	exported.ends(t, exitPart, "1 record", "k1")
	for _, args := range [][]string{{"--csv", "--json"}, {"--since", "soon"}} {
		if code, _, _ := gapsRun(t, config, args...); code != exitUsage {
			t.Errorf("%q: %d", args, code)
		}
	}
}

// gapsRun runs the command gaps.
func gapsRun(t *testing.T, config string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told strings.Builder
	code = Run(t.Context(), append([]string{"gaps", "--config", config}, args...), strings.NewReader(""), &out, &told, noEnv)
	return code, out.String(), told.String()
}
