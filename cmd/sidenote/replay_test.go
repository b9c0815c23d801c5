package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"sidenote/cmd/sidenote/internal/replay"
)

// recordingConfig is a configuration whose default policy records; %s are the upstream and what bodies
// are recorded.
const recordingConfig = `
upstream: %s/v1
state: {path: state}
knowledge: {handbook: handbook, office: office}
prices: [{match: m, input: 2, output: 8}]
policies:
  default: {knowledge: [handbook], annotations: on, record: {share: 100%%, bodies: %s, key: {file: records.key}}}
  office: {knowledge: [office]}
  both: {knowledge: [handbook, office]}
`

const recordKeys = "first MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"

// A traffic is a folder with a configuration whose requests were recorded, and its upstream.
type traffic struct {
	config string
	dir    string
	calls  *atomic.Int32 // of the upstream
}

// recordTraffic serves chats, one after the other, and ends.
func recordTraffic(t *testing.T, bodies string, chats ...string) *traffic {
	t.Helper()
	tr := &traffic{dir: t.TempDir(), calls: new(atomic.Int32)}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		tr.calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"16 weeks [1]."},"finish_reason":"stop"}],"usage":{"prompt_tokens":200,"completion_tokens":6,"total_tokens":206}}`)
	}))
	t.Cleanup(up.Close)
	for name, text := range map[string]string{
		"handbook/leave.md":  "# Leave policy\n\n## Parental leave\n\nEvery parent may take 16 weeks of parental leave on full pay.\n",
		"handbook/travel.md": "# Travel\n\n## Booking\n\nBook trains through the office; flights need the approval of your manager.\n",
		"office/printer.md":  "# Printer\n\nThe printer on the second floor needs a card, also for parental leave forms.\n",
		"records.key":        recordKeys,
		"c.yaml":             fmt.Sprintf(recordingConfig, up.URL, bodies),
	} {
		path := filepath.Join(tr.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	tr.config = filepath.Join(tr.dir, "c.yaml")
	p := serve(t, "--config", tr.config)
	for _, chat := range chats {
		resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(chat))
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", resp.Status, body)
		}
	}
	if code := p.stop(); code != exitDone {
		t.Fatalf("serve ends with %d", code)
	}
	tr.calls.Store(0)
	return tr
}

// replays runs replay with --json and returns its report.
func (tr *traffic) replays(t *testing.T, args ...string) (r replay.Report) {
	t.Helper()
	c := start(t, noEnv, append([]string{"replay", "--config", tr.config, "--json"}, args...)...)
	c.ends(t, exitDone, `"object": "replay"`, "")
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, c.out.String())
	}
	return r
}

// refuses checks the exit code and the error of replay.
func (tr *traffic) refuses(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	start(t, noEnv, append([]string{"replay", "--config", tr.config}, args...)...).ends(t, code, "", want)
}

// userChats are chats whose additions depend on different parts of the request.
var userChats = []string{
	`{"model":"m","messages":[{"role":"user","content":"How long is parental leave?"}]}`,
	`{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"How do I book trains?"},{"role":"assistant","content":"Through the office."},{"role":"user","content":"And who approves flights?"}]}`,
	`{"model":"m","response_format":{"type":"json_object"},"messages":[{"role":"user","content":"how long is PARENTAL leave"}]}`,
	`{"model":"m","sidenote":{"context_tokens":150},"messages":[{"role":"user","content":"Who approves flights?"}]}`,
	`{"model":"m","sidenote":{"query":"parental leave"},"messages":[{"role":"user","content":"Tell me more"}]}`,
	`{"model":"m","messages":[{"role":"user","content":"Do you sell locomotives?"}]}`,
}

// What was recorded by a serve is given again, byte for byte, if nothing has changed; no upstream is
// asked. A changed document shows.
func TestReplayOfRecordedTraffic(t *testing.T) {
	for _, bodies := range []string{"questions", "requests"} {
		tr := recordTraffic(t, bodies, userChats...)
		n := len(userChats)
		r := tr.replays(t)
		if r.Records != n || r.Replayed != n || r.Compared != n || r.Identical != n || r.SameInput != (replay.SameInput{Records: n, Identical: n}) || r.Silence.Before != 1 || len(r.Changed) > 0 {
			t.Errorf("%s: %+v", bodies, r)
			for _, o := range r.Changed {
				t.Logf("%+v", o)
			}
		}
		if r.Cost.Priced != n || r.Cost.BeforeUSD != r.Cost.NowUSD || r.Cost.NowUSD == 0 || r.Tokens.Before != r.Tokens.Now || r.Tokens.Now == 0 {
			t.Errorf("%s: %+v, %+v", bodies, r.Cost, r.Tokens)
		}
		write(t, filepath.Join(tr.dir, "handbook"), "leave.md", "# Leave policy\n\n## Parental leave\n\nEvery parent may take 18 weeks of parental leave on full pay.\n")
		if r := tr.replays(t); r.OtherText+r.OtherSource != 3 || r.SameInput.Records != 0 || len(r.Bases) != 1 || r.Bases[0].Other != r.Compared {
			t.Errorf("%s: after a change %+v", bodies, r)
		}
		if tr.calls.Load() > 0 {
			t.Errorf("the upstream was asked %d times", tr.calls.Load())
		}
	}
}

// Another policy has other sources, but only in its bases.
func TestReplayUnderAnotherPolicy(t *testing.T) {
	tr := recordTraffic(t, "questions", userChats...)
	page := filepath.Join(tr.dir, "replay.html")
	must(t, os.WriteFile(page, []byte("an older page"), 0o600), os.Chmod(page, 0o644))
	r := tr.replays(t, "--policy", "both", "--page", page)
	if info, err := os.Stat(page); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("others may read the page: %v, %v", info.Mode(), err)
	}
	if r.Policy != "both" || r.Compared != len(userChats) || r.Sources.Added == 0 || r.Sources.Removed > 0 || len(r.Changed) == 0 || r.Changed[0].Change <= 0 {
		t.Errorf("%+v", r)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "printer.md") || !strings.Contains(string(text), "<ins>") {
		t.Errorf("the page: %v\n%s", err, text)
	}
	start(t, noEnv, "replay", "--config", tr.config, "--policy", "both").ends(t, exitDone, "  + office/printer.md#0, now [", "")
	r = tr.replays(t, "--policy", "office")
	if r.Replayed > 1 || len(r.Skipped) != 1 || r.Skipped[0].Cause != replay.CauseBases || strings.Join(r.Skipped[0].Names, ",") != "handbook" {
		t.Errorf("of other bases: %+v", r)
	}
	if r = tr.replays(t, "--limit", "2", "--model", "gpt-4o"); r.Records != 2 || r.Model != "gpt-4o" || len(r.Changed) > 0 && r.Changed[0].Now.Model != "gpt-4o" {
		t.Errorf("the last two: %+v", r)
	}
}

// The model is asked with what is added now, under a budget.
func TestReplayAsks(t *testing.T) {
	tr := recordTraffic(t, "questions", userChats...)
	r := tr.replays(t, "--with-upstream", "--budget", "0.5")
	if a := r.Answers; a == nil || a.Answered != len(userChats) || a.Now.Citations == 0 || a.Now.CostUSD == 0 || a.SpentUSD > .5 || int(tr.calls.Load()) != a.Answered {
		t.Errorf("%+v after %d calls", r.Answers, tr.calls.Load())
	}
	tr.refuses(t, exitUsage, "--with-upstream costs money; say how much it may by --budget", "--with-upstream")
	tr.refuses(t, exitUsage, `--budget: "much" is not an amount of dollars`, "--with-upstream", "--budget", "much")
	tr.refuses(t, exitUsage, "--budget: 0 allows no answer", "--with-upstream", "--budget", "0")
	tr.refuses(t, exitUsage, "--budget goes with --with-upstream", "--budget", "1")
	tr.refuses(t, exitFailed, `model "unpriced": no price, so no budget can be kept`, "--with-upstream", "--budget", "1", "--model", "unpriced")
}

// Questions are exported for a person to confirm, and eval asks the confirmed ones.
func TestReplayExports(t *testing.T) {
	tr := recordTraffic(t, "questions", userChats...)
	file := filepath.Join(tr.dir, "questions.csv")
	start(t, noEnv, "replay", "--config", tr.config, "--export", file).ends(t, exitDone, "exported      3 questions of 6 records, in 3 rows of ", "")
	text, err := os.ReadFile(file)
	must(t, err)
	const first = "question,expected,confirmed,asked,cited\nHow long is parental leave?,leave.md,,1,1\nWho approves flights?,travel.md,,1,1\nparental leave,leave.md,,1,1\n"
	if string(text) != first {
		t.Errorf("%s", text)
	}
	tr.refuses(t, exitFailed, "file exists", "--export", file)
	tr.refuses(t, exitUsage, "--export replays nothing", "--export", file, "--policy", "both")
	evaluated := []string{"eval", "--data", file, "--knowledge", filepath.Join(tr.dir, "handbook")}
	start(t, noEnv, evaluated...).ends(t, exitUsage, "", "none of 3 rows is confirmed")
	must(t, os.WriteFile(file, []byte(strings.Replace(string(text), "leave.md,,", "leave.md,yes,", 1)), 0o600))
	start(t, noEnv, evaluated...).ends(t, exitDone, "asked       1 query of questions.csv (not confirmed, so not asked: 2 rows)", "")
}

// Mistakes are named, and nothing that is recorded is shown with the wrong key.
func TestReplayRefuses(t *testing.T) {
	tr := recordTraffic(t, "questions", userChats[0])
	tr.refuses(t, exitUsage, `--policy: no policy is named "bth"; there are both, default, office`, "--policy", "bth")
	tr.refuses(t, exitUsage, `--since "yesterday" is no time`, "--since", "yesterday")
	tr.refuses(t, exitUsage, "--limit takes a number of questions, not -1", "--limit=-1")
	tr.refuses(t, exitFailed, "for --tenant nobody", "--tenant", "nobody")
	tr.refuses(t, exitFailed, "--from: policy both does not record; its key policies.both.record turns that on", "--from", "both")
	write(t, tr.dir, "records.key", "second MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDI=\n")
	tr.refuses(t, exitFailed, "first, which is not among the given ones: second")
	write(t, tr.dir, "records.key", recordKeys)
	must(t, os.RemoveAll(filepath.Join(tr.dir, "state", "records")))
	tr.refuses(t, exitFailed, "no question is recorded in ")
	text, err := os.ReadFile(tr.config)
	must(t, err)
	before, _, _ := strings.Cut(string(text), "policies:")
	must(t, os.WriteFile(tr.config, []byte(before), 0o600))
	tr.refuses(t, exitUsage, "no policy records; write policies.NAME.record into --config")
}

// Records of tenants that no longer exist are counted, and not replayed as another one.
func TestReplayOfFormerTenant(t *testing.T) {
	tr := recordTraffic(t, "questions", userChats[0])
	text, err := os.ReadFile(tr.config)
	must(t, err)
	must(t, os.WriteFile(tr.config, append(text, "tenants: {hr: {policy: default, keys: [{sha256: "+strings.Repeat("0", 64)+"}]}}\n"...), 0o600))
	r := tr.replays(t)
	if r.Replayed != 0 || len(r.Skipped) != 1 || r.Skipped[0].Cause != replay.CauseTenant || r.Skipped[0].Names[0] != "default" {
		t.Errorf("%+v", r)
	}
}
