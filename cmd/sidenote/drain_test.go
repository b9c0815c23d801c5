package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/proxy"
)

// readiness is what the admin port reports about the process.
func (p *process) readiness(t *testing.T) (status int, reasons []string) {
	t.Helper()
	resp, err := http.Get(p.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Reasons []string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer.Reasons
}

// A process that is asked to stop first reports that it is not ready, serves for a while so that no
// request meets a closed port, and then closes the port.
func TestNotReadyFirst(t *testing.T) {
	const delay = time.Second
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", handbook(t), "--state", ":memory:", "--shutdown-delay", delay.String())
	ask := func(client *http.Client) *http.Response {
		t.Helper()
		resp, err := client.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"How long is parental leave?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	old := &http.Client{Transport: &http.Transport{}}
	if resp := ask(old); resp.Close || resp.StatusCode != 200 {
		t.Errorf("before: %s, closes %v", resp.Status, resp.Close)
	}
	asked, stopped := time.Now(), make(chan int, 1)
	go func() { stopped <- p.stop() }()
	status, reasons := p.readiness(t)
	for status == http.StatusOK && time.Since(asked) < 10*time.Second {
		status, reasons = p.readiness(t)
	}
	if status != http.StatusServiceUnavailable || len(reasons) != 1 || reasons[0] != "shutting down" {
		t.Fatalf("%d, %q", status, reasons)
	}
	for name, client := range map[string]*http.Client{"a new connection": {Transport: &http.Transport{}}, "an old one": old} {
		if resp := ask(client); resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Sidenote-Status"), "injected;") || !resp.Close {
			t.Errorf("%s: %s, %s, closes %v", name, resp.Status, resp.Header.Get("Sidenote-Status"), resp.Close)
		}
	}
	if code := <-stopped; code != exitDone || time.Since(asked) < delay {
		t.Errorf("ended after %s with %d", time.Since(asked), code)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(p.data, "http://")); err == nil {
		conn.Close()
		t.Error("the port is open")
	}
}

// shutdown_delay is part of shutdown_grace, and the image sets one.
func TestShutdownDelay(t *testing.T) {
	load := func(flag, text string) (*config.Config, error) {
		return config.Load(config.Source{
			Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte("upstream: http://u.test\n" + text), nil }, Flags: config.Flags{ShutdownDelay: flag},
		})
	}
	for _, c := range []struct {
		flag, text string
		delay      time.Duration
		problem    string
	}{
		{"", "", 0, ""},
		{"", "shutdown_delay: 3s", 3 * time.Second, ""},
		{"5s", "shutdown_delay: 3s", 5 * time.Second, ""},
		{"0s", "shutdown_delay: 3s", 0, ""},
		{"", "shutdown_delay: 25s", 0, "c.yaml:2:1: shutdown_delay: 25s is part of shutdown_grace, 25s, and leaves nothing of it"},
		{"5s", "shutdown_grace: 2s", 0, "--shutdown-delay: shutdown_delay: 5s is part of shutdown_grace, 2s, and leaves nothing of it"},
		{"", "shutdown_delay: -1s", 0, "c.yaml:2:17: shutdown_delay: -1s is out of range; use 0s to 1h"},
		{"5", "", 0, `--shutdown-delay: "5" is not a duration; write it as in 300ms, 5s or 10m`},
		{"-5s", "", 0, `--shutdown-delay: "-5s" is not a duration; write it as in 300ms, 5s or 10m`},
	} {
		cfg, err := load(c.flag, c.text)
		switch {
		case c.problem == "" && (err != nil || cfg.ShutdownDelay != c.delay):
			t.Errorf("%q, %q: %v", c.flag, c.text, err)
		case c.problem != "" && (err == nil || err.Error() != c.problem):
			t.Errorf("%q, %q:\ngot  %v\nwant %s", c.flag, c.text, err, c.problem)
		}
	}
	image, err := os.ReadFile("../../Dockerfile")
	if err != nil || !regexp.MustCompile(`(?m)^\s+SIDENOTE_SHUTDOWN_DELAY=5s$`).Match(image) {
		t.Errorf("the image has none: %v", err)
	}
}

// An answer that is cut at the end of the grace period is logged as cut.
func TestCutIsLogged(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		if r.Header.Get("X-Cut") != "" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}))
	defer upstream.Close()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("shutdown_grace: 100ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--config", file, "--upstream", upstream.URL, "--state", ":memory:")
	for _, cut := range []string{"", "1"} {
		req, err := http.NewRequest(http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		if cut != "" {
			req.Header.Set("X-Cut", cut)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if cut != "" {
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Error("a cut looks like an end")
			}
		}
	}
	if code := p.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`"client":"cut_by_upstream"`, `"client":"cut_by_shutdown"`} {
		if text := p.out.until(t, want); strings.Contains(text, `"client":"completed"`) {
			t.Errorf("a cut answer was completed: %s", text)
		}
	}
}

// SIGHUP reloads the configuration and does not stop the process.
func TestHangup(t *testing.T) {
	data, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	cmd := exec.Command(released(t), "serve", "--upstream", newRecorder(t).URL, "--listen", data, "--admin", "off", "--state", ":memory:")
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		close(out.ended)
	}()
	defer func() { _ = cmd.Process.Kill() }()
	out.until(t, "in this process")
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if !signal.Ignored(syscall.SIGHUP) { // as it is for all of a test run under nohup
		out.until(t, "configuration: read again (SIGHUP): nothing has changed")
	}
	resp, err := http.Get("http://" + data + "/v1/models")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v: %s", err, out.text.String())
	}
}

// Upstreams are probed concurrently in the background: one that does not answer delays neither the
// others nor the reading of bases.
func TestUpstreamsAreProbedBeside(t *testing.T) {
	cfg, err := config.Load(config.Source{Path: "c.yaml", Read: func(string) ([]byte, error) {
		return []byte("upstreams: {a: http://a.test, b: http://b.test, c: http://c.test}\npolicies: {default: {upstream: a}}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	out := serving.NewOutput(text, config.Log{Format: "text", Requests: "all"})
	asked, answer := make(chan string), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	wait := out.Announce(ctx, cfg, serving.Listeners{Data: []net.Listener{l}}, func(ctx context.Context, u proxy.Upstream) error {
		asked <- u.BaseURL.String()
		if u.BaseURL.Host == "c.test" {
			<-ctx.Done()
			return ctx.Err()
		}
		<-answer
		return errors.New("refused")
	})
	for range 3 { // all at once
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Fatal("one waits for another")
		}
	}
	out.Indexed(server.Indexed{ID: "x", Line: "x: read meanwhile"})
	out.Log(slog.LevelWarn, "what else there is")
	text.until(t, "what else there is")
	close(answer)
	stop()
	wait()
	out.Close()
	got := text.until(t, "read meanwhile")
	at := -1
	for _, want := range []string{"listening", "a.test/v1/chat/completions   (not reachable: refused)", "b.test/v1/chat/completions   (not reachable: refused)", "c.test/v1/chat/completions   (no answer yet)", "x: read meanwhile"} {
		next := strings.Index(got, want)
		if next <= at {
			t.Errorf("%q is missing or out of turn in %s", want, got)
		}
		at = next
	}
}
