package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// With ready: knowledge a process becomes ready when every base was opened once, and stays ready.
// If the state folder cannot be used, the reason says so.
func TestReadyWhenKnowledgeWasOpened(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), written(t, "state", "a file")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	p := serve(t, append(args, "--ready", "knowledge")...)
	code, said := get(t, p.admin+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(said, `"status":"not ready"`) || !strings.Contains(said, `"state: `) || strings.Contains(said, "indexing") {
		t.Errorf("with a state folder that cannot be used: %d, %s", code, said)
	}
	if strings.Count(said, `"state: `) != 1 || strings.Count(said, `"knowledge kb: `) != 1 {
		t.Errorf("a reason is said twice, or not: %s", said)
	}
	if s := p.chats(t); !strings.HasPrefix(s, "untouched; reason=state") {
		t.Errorf("%s", s)
	}
	if code, _ := get(t, p.admin+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	must(t, os.Remove(state))
	p.readyz(t, `{"status":"ready"}`)
	must(t, os.Rename(docs, docs+".away"))
	p.readyz(t, `"status":"degraded"`)
	p.stop()

	again := serve(t, append(args, "--ready", "knowledge")...) // its documents are away, and it has what it read
	if code, said := get(t, again.admin+"/readyz"); code != http.StatusOK || !strings.Contains(said, `"status":"degraded"`) {
		t.Errorf("of a folder that is away: %d, %s", code, said)
	}
}

// A vector store counts as opened when it has answered, even with an error. With ready: listening,
// one that does not answer does not keep a process from being ready.
func TestReadyWaitsForStores(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"id":"vs_1","object":"vector_store","created_at":1,"status":"completed","usage_bytes":1,"file_counts":{"completed":1,"total":1}}`)
	}))
	t.Cleanup(store.Close)
	for _, c := range []struct {
		ready         string
		answers, want int
	}{{"knowledge", 503, 503}, {"knowledge", 401, 503}, {"knowledge", 404, 200}, {"knowledge", 200, 200}, {"listening", 503, 200}} {
		status.Store(int64(c.answers))
		p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nready: %s\nupstreams: {store: {base_url: %s}}\n"+
			"knowledge: {kb: %q, remote: {engine: vector_store, id: vs_1, upstream: store}}\n", newRecorder(t).URL, c.ready, store.URL, handbook(t))), "--state", ":memory:")
		code, said := get(t, p.admin+"/readyz")
		if code != c.want || strings.Contains(said, "knowledge remote") != (c.answers != 200) || strings.Contains(said, "knowledge kb") {
			t.Errorf("ready: %s, of a store that answers %d: %d, %s", c.ready, c.answers, code, said)
		}
		p.stop()
	}
}

// ready accepts two values, listening is the default, and the image and the manifest use knowledge.
func TestReadyIsListeningOrKnowledge(t *testing.T) {
	for _, c := range []struct{ flag, text, ready, problem string }{
		{"", "", "listening", ""},
		{"", "ready: knowledge", "knowledge", ""},
		{"listening", "ready: knowledge", "listening", ""},
		{"knowledge", "", "knowledge", ""},
		{"", "ready: soon", "", `c.yaml:2:8: ready: "soon" is none of listening, knowledge`},
		{"soon", "", "", `--ready: "soon" is none of listening, knowledge`},
	} {
		cfg, err := config.Load(config.Source{
			Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte("upstream: http://u.test\n" + c.text), nil }, Flags: config.Flags{Ready: c.flag},
		})
		switch {
		case c.problem == "" && (err != nil || cfg.Ready != c.ready):
			t.Errorf("%q, %q: %v", c.flag, c.text, err)
		case c.problem != "" && (err == nil || err.Error() != c.problem):
			t.Errorf("%q, %q:\ngot  %v\nwant %s", c.flag, c.text, err, c.problem)
		}
	}
	for file, want := range map[string]string{
		"../../Dockerfile":          `(?m)^\s+SIDENOTE_READY=knowledge `,
		"../../deploy/compose.yaml": `"--ready", "knowledge"`,
	} {
		if text, err := os.ReadFile(file); err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s: no %s, %v", file, want, err)
		}
	}
}
