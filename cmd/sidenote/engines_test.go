package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/services/servicestest"
)

// enginePlace returns the keys of a base in an engine that is started for tests.
func enginePlace(t *testing.T, engine string) string {
	t.Helper()
	if engine == "opensearch" {
		return fmt.Sprintf("engine: opensearch, timeout: 1m, url: %q, namespace: test%d", enginetest.OpenSearch(t), time.Now().UnixNano())
	}
	u, err := url.Parse(enginetest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	user := u.User.Username()
	u.User = nil
	return fmt.Sprintf("engine: postgres, url: %q, user: %s", u, user)
}

// done runs a command to its end and returns what it printed; it fails the test if the command
// does.
func done(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), args, strings.NewReader(""), &out, &errs, noEnv); code != exitDone {
		t.Fatalf("sidenote %s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// unless returns what eventually needs: a text until is returns true.
func unless(what string, is func() bool) func() string {
	return func() string {
		if is() {
			return ""
		}
		return "never: " + what
	}
}

// documentsOf returns the number of documents of a base by the admin port.
func documentsOf(t *testing.T, admin, base string) int {
	t.Helper()
	resp, err := http.Get(admin + "/v1/knowledge/" + base) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b struct {
		Documents int `json:"documents"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&b) // not found yet
	return b.Documents
}

// Bases in one engine answer as embedded bases do: with versions, copies in several bases, earlier
// turns and subsets of the bases. One process writes them, another only reads.
func TestBasesInAnEngineAnswerAsEmbeddedOnes(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgres", "opensearch"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			dirs, place, up := offices(t), enginePlace(t, engine), newRecorder(t)
			config := func(name string, base func(id string) string) string {
				return written(t, name, fmt.Sprintf("upstream: %s\nknowledge:\n  hr: {%s}\n  it: {%s}\n  legal: {%s}\npolicies: {default: {retrieval: {deadline: 30s}}}\n",
					up.URL, base("hr"), base("it"), base("legal")))
			}
			embedded := serve(t, "--config", config("embedded.yaml", func(id string) string { return "path: " + dirs[id] }))
			writer := config("writer.yaml", func(id string) string { return place + ", path: " + dirs[id] })
			for id := range dirs {
				done(t, "knowledge", "init", id, "--config", writer)
			}
			writing := serve(t, "--config", writer)
			for id := range dirs {
				eventually(t, unless(id+" is written", func() bool { return documentsOf(t, writing.admin, id) > 0 }))
			}
			reading := serve(t, "--config", config("reader.yaml", func(string) string { return place }))
			for id := range dirs {
				eventually(t, unless(id+" is seen", func() bool {
					return documentsOf(t, reading.admin, id) == documentsOf(t, embedded.admin, id)
				}))
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("embedded:", embedded.out.text.String(), "\nreading:", reading.out.text.String())
				}
			})
			compareOffices(t, embedded, reading)
		})
	}
}

// compareOffices asks two processes the same questions.
func compareOffices(t *testing.T, want, got *process) {
	t.Helper()
	some := 0
	for _, body := range officeSearches() {
		want, got := foundAt(t, want.admin, "", body), foundAt(t, got.admin, "", body)
		if !slices.Equal(got, want) {
			t.Errorf("%v:\n%s\nembedded:\n%s", body, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if len(want) > 2 {
			some++
		}
	}
	if some < 8 {
		t.Errorf("%d questions with several sources", some)
	}
}

// eval measures bases in an engine, named by the configuration or by --knowledge, as embedded ones
// with the same documents.
func TestEvalOfBasesInAnEngine(t *testing.T) {
	dirs, place := offices(t), enginePlace(t, "postgres")
	config := func(name, hr, it string) string {
		return written(t, name, fmt.Sprintf("upstream: http://127.0.0.1:9\nstate: %s\nknowledge: {hr: {%s, path: %s}, it: {%s, path: %s}}\n", t.TempDir(), hr, dirs["hr"], it, dirs["it"]))
	}
	here, there := config("here.yaml", "engine: embedded", "engine: embedded"), config("there.yaml", place, place)
	for _, id := range []string{"hr", "it"} {
		done(t, "knowledge", "init", id, "--config", there)
	}
	done(t, "ingest", "--config", here)
	done(t, "ingest", "--config", there)
	questions := written(t, "questions.csv", "question,expected\nWhich VPN client do we use?,vpn-v2.md\nHow many weeks of parental leave are there?,hr/parental.md\n"+
		"When are expenses paid?,hr/expenses.md\nWhen are expenses paid?,it/expenses.md\n")
	measured := func(args ...string) (m map[string]any) {
		if err := json.Unmarshal([]byte(done(t, append([]string{"eval", "--data", questions, "--json"}, args...)...)), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "latency_ms")
		return m
	}
	want := measured("--config", here)
	if want["ndcg_at_10"] == 0.0 || want["documents"] != 10.0 {
		t.Errorf("embedded: %v", want)
	}
	for _, args := range [][]string{{"--config", there}, {"--config", there, "--knowledge", "hr", "--knowledge", "it"}} {
		if diff := cmp.Diff(want, measured(args...)); diff != "" {
			t.Errorf("%v differs from embedded bases:\n%s", args, diff)
		}
	}
	pattern := written(t, "pattern.csv", "question,expected\nWhich VPN client do we use?,vpn-*.md\n")
	start(t, noEnv, "eval", "--data", pattern, "--config", there).ends(t, exitUsage, "", "is a pattern, but engines do not list the documents of hr, it")
}

// Folders of bases in an engine are embedded by ingest, each text once.
func TestIngestEmbedsForAnEngine(t *testing.T) {
	service, place := servicestest.Start(t), enginePlace(t, "postgres")
	config := written(t, "embed.yaml", fmt.Sprintf("upstream: %s\nembeddings: {upstream: %s, model: stub}\nstate: %s\nknowledge: {docs: {%s, path: %s, embed: true}}\n",
		newRecorder(t).URL, service.URL, t.TempDir(), place, handbook(t)))
	done(t, "knowledge", "init", "docs", "--config", config)
	first := done(t, "ingest", "--config", config)
	if !regexp.MustCompile(`(?m)^docs: (\d+) of (\d+) chunks? embedded by stub; [1-9]\d* now, `).MatchString(first) {
		t.Errorf("ingest printed %q", first)
	}
	if again := done(t, "ingest", "--config", config); !strings.Contains(again, "embedded by stub; 0 now, 0 tokens") {
		t.Errorf("ingest printed %q the second time", again)
	}
}

// A process that writes a base in an engine is killed; another takes over, and nothing is lost or
// written twice.
func TestWriterOfAnEngineIsReplacedWhenItIsKilled(t *testing.T) {
	t.Parallel()
	dir, place, up := t.TempDir(), enginePlace(t, "postgres"), newRecorder(t)
	page := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("# "+name+"\n\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		page(fmt.Sprintf("page-%d.md", i), fmt.Sprintf("This is page number %d about subject%d and more.", i, i))
	}
	config := written(t, "engine.yaml", fmt.Sprintf("upstream: %s\nknowledge: {docs: {%s, path: %s}}\npolicies: {default: {retrieval: {deadline: 30s}}}\n", up.URL, place, dir))
	done(t, "knowledge", "init", "docs", "--config", config)
	first := exec.Command(released(t), "serve", "--config", config, "--listen", "127.0.0.1:0", "--admin", "off", "--state", t.TempDir()) //nolint:noctx // killed below
	said := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	first.Stdout, first.Stderr = said, said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	killed := make(chan error, 1)
	go func() { killed <- first.Wait(); close(said.ended) }()
	said.until(t, "listening")
	second := serve(t, "--config", config)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed
	page("page-0.md", "This page is about aardvarks now.")
	eventually(t, unless("the second process sees all pages", func() bool { return documentsOf(t, second.admin, "docs") == 300 }))
	end := time.Now().Add(3 * time.Minute) // the lease of the first ends after half a minute
	for tick := time.NewTicker(200 * time.Millisecond); !strings.HasPrefix(foundAt(t, second.admin, "", map[string]any{"query": "aardvarks"})[0], "docs/page-0.md"); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the second process never writes")
		}
	}
	if n := documentsOf(t, second.admin, "docs"); n != 300 {
		t.Errorf("%d documents, want 300", n)
	}
	for _, i := range []int{1, 150, 299} {
		found := foundAt(t, second.admin, "", map[string]any{"query": fmt.Sprintf("subject%d", i)})
		if len(found) < 2 || !strings.HasPrefix(found[0], fmt.Sprintf("docs/page-%d.md", i)) {
			t.Errorf("subject%d: %v", i, found)
		}
	}
}

// An engine that is away costs requests their sources and at most the deadline; when it is back they
// have them again, without a restart.
func TestRequestsPassWhileAnEngineIsAway(t *testing.T) {
	server, up := enginetest.StartPostgres(t), newRecorder(t)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	user := u.User.Username()
	u.User = nil
	config := written(t, "away.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {docs: {engine: postgres, url: %q, user: %s, path: %s}}\npolicies: {default: {retrieval: {deadline: 2s}}}\n", up.URL, u, user, handbook(t)))
	done(t, "knowledge", "init", "docs", "--config", config)
	p := serve(t, "--config", config)
	eventually(t, unless("docs is written", func() bool { return documentsOf(t, p.admin, "docs") > 0 }))
	n := 0
	injected := func() bool { // of a question that nobody asked before
		n++
		body := fmt.Sprintf(`{"model": "gpt-4o", "messages": [{"role": "user", "content": "How many weeks of parental leave are there, in %d words?"}]}`, n)
		if code, answer := posted(t, p.data+"/v1/chat/completions", "", body); code != http.StatusOK {
			t.Fatal(code, answer)
		}
		return !bytes.Equal(up.last(t).body, []byte(body))
	}
	eventually(t, unless("given sources", injected))
	server.Kill(t)
	if injected() {
		t.Error("sources from an engine that is away")
	}
	server.Restart(t)
	eventually(t, unless("given sources again", injected))
}
