package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// serveSocket starts an upstream on a unix socket.
func serveSocket(t *testing.T, path string, h http.Handler) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// overSocket returns a client that sends all requests to a unix socket, whatever host they name.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// Everything over unix sockets: the official SDK uses one, streamed and not, the upstream is
// reached by another, and sidenote health uses a third. They are removed at the end.
func TestUnixSockets(t *testing.T) {
	u := newRecorder(t)
	dir := writeFiles(t, nil)
	at := func(name string) string { return filepath.Join(dir, name) }
	serveSocket(t, at("api.sock"), http.HandlerFunc(u.answer))
	if err := os.WriteFile(at("c.yaml"), fmt.Appendf(nil, `
listen: ['127.0.0.1:0', 'unix:%s', {address: 'unix:%s', tenant: acme}]
telemetry: {listen: 'unix:%s'}
upstream: unix:%s:/v1
tenants: {acme: {policy: default}}
policies: {default: {mode: off}}
`, at("data.sock"), at("acme.sock"), at("telemetry.sock"), at("api.sock")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serveIn(t, noEnv, "--config", at("c.yaml"), "--state", ":memory:", "--listen", "")
	said := p.out.until(t, "in this process")
	for _, line := range []string{"unix:" + at("data.sock") + ":/v1", "unix:" + at("api.sock") + ":/v1/chat/completions   (reachable)"} {
		if !strings.Contains(said, line) {
			t.Errorf("%q is not announced:\n%s", line, said)
		}
	}
	sdk := openai.NewClient(option.WithBaseURL("http://localhost/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0), option.WithHTTPClient(overSocket(at("acme.sock"))))
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	if _, err := sdk.Chat.Completions.New(t.Context(), params); err != nil {
		t.Error(err)
	}
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), params)
	text := ""
	for stream.Next() {
		text += stream.Current().Choices[0].Delta.Content
	}
	if stream.Err() != nil || text != "Sixteen weeks [1]." {
		t.Errorf("streamed %q, %v", text, stream.Err())
	}
	if got := u.last(t); got.target != "/v1/chat/completions" {
		t.Errorf("the upstream was asked for %q", got.target)
	}
	resp, err := overSocket(at("data.sock")).Post("http://localhost/v1/chat/completions", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a caller of the other socket: %s", resp.Status)
	}
	var out strings.Builder
	if code := Run(t.Context(), []string{"health", "--config", at("c.yaml")}, strings.NewReader(""), &out, &out, noEnv); code != exitDone {
		t.Errorf("health ends with %d: %s", code, out.String())
	}
	if code := p.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"data.sock", "acme.sock", "telemetry.sock"} {
		if _, err := os.Lstat(at(name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// C2, U5 over unix sockets: if the client leaves during an answer the upstream call is canceled,
// and an answer that the upstream cuts does not look complete.
func TestUnixSocketsCut(t *testing.T) {
	dir := writeFiles(t, nil)
	api, data := filepath.Join(dir, "api.sock"), filepath.Join(dir, "data.sock")
	cancelled, cut := make(chan struct{}), make(chan struct{})
	leave := sync.OnceFunc(func() { close(cancelled) }) // the connection of a cut answer ends, too
	serveSocket(t, api, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			leave()
		case <-cut:
			panic(http.ErrAbortHandler)
		}
	}))
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), fmt.Appendf(nil, "listen: ['127.0.0.1:0', 'unix:%s']\nupstream: unix:%s\n", data, api), 0o600); err != nil {
		t.Fatal(err)
	}
	serveIn(t, noEnv, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:", "--listen", "")
	ask := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("unix", data)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		r := bufio.NewReader(c)
		for line := ""; line != "data: first\n"; {
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		return c, r
	}
	c, _ := ask()
	_ = c.Close()
	select {
	case <-cancelled:
	case <-time.After(time.Minute):
		t.Fatal("the upstream was not cancelled")
	}
	_, r := ask()
	close(cut)
	rest, _ := io.ReadAll(r)
	if strings.Contains(string(rest), "\r\n0\r\n") {
		t.Errorf("the answer looks whole: %q", rest)
	}
}
