package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Origins are a git repository, a site and a bucket on this machine, with a document each.
type origins struct {
	t    *testing.T
	work string // from which the repository is pushed
	bare string
	site string // the text of the page
	s3   *s3mem.Backend
	down atomic.Bool
	url  string
}

func newOrigins(t *testing.T) *origins {
	t.Helper()
	e := &origins{t: t, work: t.TempDir(), s3: s3mem.New(), site: "<title>Travel</title><h1>Travel</h1><p>Book trains through the office.</p>"}
	root := t.TempDir()
	e.bare = filepath.Join(root, "r.git")
	e.git("init", "-q", "-b", "main")
	e.git("init", "-q", "-b", "main", "--bare", e.bare)
	e.push("leave.md", "# Leave\n\nEvery parent may take 16 weeks of parental leave.\n")
	must(t, e.s3.CreateBucket("docs"))
	e.object("pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	program, err := exec.LookPath("git")
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/r.git/", &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"}, Stderr: io.Discard})
	mux.HandleFunc("/site/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, e.site)
	})
	mux.Handle("/docs", gofakes3.New(e.s3, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	mux.Handle("/docs/", gofakes3.New(e.s3, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if e.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, q)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	e.url = s.URL
	return e
}

func (e *origins) git(args ...string) {
	e.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = e.work
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := c.CombinedOutput(); err != nil {
		e.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// push writes a document to the repository.
func (e *origins) push(name, text string) {
	e.t.Helper()
	write(e.t, e.work, name, text)
	e.git("add", "-A")
	e.git("commit", "-q", "-m", "change")
	e.git("push", "-q", e.bare, "HEAD:main")
}

// object writes a document to the bucket.
func (e *origins) object(key, text string) {
	e.t.Helper()
	_, err := e.s3.PutObject("docs", key, map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)}, strings.NewReader(text), int64(len(text)), nil)
	must(e.t, err)
}

// config returns the path of a configuration with a base for each source.
func (e *origins) config(upstream string) string {
	file := written(e.t, "sidenote.yaml", fmt.Sprintf(`
upstream: %[2]s
knowledge:
  code:
    git: {url: "%[1]s/r.git", allow_private: true, webhook_secret: {file: hook}}
    page: "https://forge.test/o/r/blob/{ref}/{path}"
  site:
    http: {urls: ["%[1]s/site/"], delay: 1ms, allow_private: true}
  bucket:
    s3: {endpoint: "%[1]s", bucket: docs, region: us-east-1, allow_private: true}
`, e.url, upstream))
	write(e.t, filepath.Dir(file), "hook", "canary\n")
	return file
}

// hook calls the webhook of a base as GitHub does, by the name of a host.
func (p *process) hook(t *testing.T, base, body, signature string, want int) {
	t.Helper()
	q, err := http.NewRequest(http.MethodPost, p.admin+"/v1/knowledge/"+base+"/webhook", strings.NewReader(body))
	must(t, err)
	q.Host = "sidenote.example.com"
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Hub-Signature-256", signature)
	r, err := http.DefaultClient.Do(q)
	must(t, err)
	if must(t, r.Body.Close()); r.StatusCode != want {
		t.Errorf("a webhook of %s signed %q: %d, want %d", base, signature, r.StatusCode, want)
	}
}

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// A serve fetches a repository, a site and a bucket, and follows them. While they cannot be reached it
// answers from what it has, and says so.
func TestServeFetches(t *testing.T) {
	t.Parallel()
	e, state := newOrigins(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--config", e.config(newRecorder(t).URL), "--state", state}
	p := serve(t, args...)
	p.comes(t, "parental leave", "leave.md")
	p.comes(t, "book trains", "site/index.html")
	p.comes(t, "llamas on Fridays", "pets.md")
	p.asks(t, "GET", "/v1/knowledge/code/documents/leave.md", "", 200, `"url":"https://forge.test/o/r/blob/HEAD/leave.md"`)
	p.asks(t, "GET", "/v1/knowledge/site/documents/site%2Findex.html", "", 200, `"url":"`+e.url+`/site/"`)
	p.asks(t, "GET", "/v1/knowledge/code", "", 200, `"path":"git `+e.url+`/r.git"`, `"text":"last read just now"`, `"commit":"`)

	e.push("zebras.md", "# Zebras\n\nZebras graze at noon.\n")
	p.asks(t, "POST", "/v1/knowledge/code/ingest", "", 202)
	p.comes(t, "zebras graze", "zebras.md")
	start(t, noEnv, "ingest", "--config", args[1], "--state", state).ends(t, exitDone, "code: 2 files, 2 chunks", "code: handed over to the process at ")

	e.push("yaks.md", "# Yaks\n\nYaks sleep in the garage.\n")
	const pushed = `{"ref": "refs/heads/main"}`
	p.hook(t, "code", pushed, sign("wrong", pushed), 401)
	p.hook(t, "code", pushed, "", 401)
	p.hook(t, "site", pushed, sign("", pushed), 401)
	p.hook(t, "code", pushed, sign("canary", pushed), 202)
	p.comes(t, "yaks in the garage", "yaks.md")

	e.down.Store(true)
	start(t, noEnv, "ingest", "--config", args[1], "--state", state).ends(t, exitFailed, "", "cannot be fetched")
	said := p.readyz(t, "cannot be fetched")
	if !strings.Contains(said, `"status":"degraded"`) || strings.Count(said, "cannot be fetched") != 3 {
		t.Errorf("readyz: %s", said)
	}
	p.comes(t, "zebras graze", "zebras.md")
	start(t, noEnv, "knowledge", "show", "site", "--config", args[1], "--state", state).ends(t, exitDone, "fetched     last read ", "")
	if _, metrics := get(t, p.admin+"/metrics"); !strings.Contains(metrics, `sidenote_knowledge_fetches_total{knowledge="code",result="error"}`) {
		t.Error("the failed fetch is not counted")
	}
	p.stop()

	again := serve(t, args...) // it is not fetched again at once, and answers at once
	again.comes(t, "parental leave", "leave.md")
	again.comes(t, "book trains", "site/index.html")
}

// What cannot be reached at the start holds up nothing.
func TestServeWithoutItsSource(t *testing.T) {
	t.Parallel()
	e := newOrigins(t)
	e.down.Store(true)
	p := serve(t, "--config", e.config(newRecorder(t).URL), "--state", filepath.Join(t.TempDir(), "state"), "--ready", "knowledge")
	said := p.readyz(t, "code: git "+e.url+"/r.git cannot be fetched")
	if !strings.Contains(said, `"status":"degraded"`) {
		t.Errorf("readyz: %s", said)
	}
	e.down.Store(false)
	p.asks(t, "POST", "/v1/knowledge/code/ingest", "", 202)
	p.comes(t, "parental leave", "leave.md")
}

// An ingest fetches by itself; without a state folder, a serve fetches into a temporary one.
func TestIngestFetches(t *testing.T) {
	t.Parallel()
	e, state := newOrigins(t), filepath.Join(t.TempDir(), "state")
	file := e.config(newRecorder(t).URL)
	start(t, noEnv, "ingest", "--config", file, "--state", state).ends(t, exitDone, "code: 1 file, 1 chunk; 1 new", "")
	e.object("bad/film.mp4", "film")
	c := start(t, noEnv, "ingest", "--config", file, "--state", state, "--json")
	c.ends(t, exitDone, `"unchanged": 1`, "bucket: 1 objects are of no format that is read, or excluded")
	if !json.Valid(c.out.Bytes()) {
		t.Errorf("not JSON: %s", c.out.String())
	}
	e.down.Store(true)
	start(t, noEnv, "ingest", "--config", file, "--state", state).ends(t, exitPart, "code: 1 file", "cannot be fetched: ")
	start(t, noEnv, "search", "parental leave", "--config", file, "--state", state).ends(t, exitDone, "leave.md", "")
	e.down.Store(false)
	p := serve(t, "--config", file, "--state", ":memory:")
	p.comes(t, "parental leave", "leave.md")
}

// One process fetches into a base in an engine, with the addresses of its pages; another one, which has
// no source, sees each change.
func TestServeFetchesIntoAnEngine(t *testing.T) {
	t.Parallel()
	e, place, up := newOrigins(t), enginePlace(t, "postgres"), newRecorder(t)
	config := func(name, more string) string {
		return written(t, name, fmt.Sprintf("upstream: %s\nknowledge:\n  code: {%s%s}\npolicies: {default: {retrieval: {deadline: 30s}}}\n", up.URL, place, more))
	}
	file := config("writer.yaml", fmt.Sprintf(`, git: {url: "%s/r.git", allow_private: true}, page: "https://forge.test/o/r/blob/{ref}/{path}"`, e.url))
	done(t, "knowledge", "init", "code", "--config", file)
	writer := serve(t, "--config", file, "--state", filepath.Join(t.TempDir(), "state"))
	reader := serve(t, "--config", config("reader.yaml", ""))
	for _, p := range []*process{writer, reader} {
		p.comes(t, "parental leave", "leave.md")
		p.asks(t, "POST", "/v1/search", `{"query": "parental leave", "filters": {"type": "eq", "key": "url", "value": "https://forge.test/o/r/blob/HEAD/leave.md"}}`, 200, `"doc_id":"leave.md"`)
	}
	e.push("zebras.md", "# Zebras\n\nZebras graze at noon.\n")
	writer.asks(t, "POST", "/v1/knowledge/code/ingest", "", 202)
	reader.comes(t, "zebras graze", "zebras.md")
	e.down.Store(true)
	writer.asks(t, "POST", "/v1/knowledge/code/ingest", "", 202)
	writer.readyz(t, "cannot be fetched")
	reader.comes(t, "parental leave", "leave.md")
}
