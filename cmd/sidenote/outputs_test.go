package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis/redistest"
)

// A chorus is an upstream that counts its calls. Its answers depend only on the request.
type chorus struct {
	*httptest.Server
	calls atomic.Int32
}

func newChorus(t *testing.T) *chorus {
	c := &chorus{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			return
		}
		c.calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"text of %d bytes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, len(body))
	}))
	t.Cleanup(c.Close)
	return c
}

// stagesIn is a configuration of answers in two stages, with additional keys.
func stagesIn(up *chorus, more string) string {
	return fmt.Sprintf("upstream: %s/v1\npolicies: {default: {mode: staged, stages: {chain: [{name: draft, user_prompt_template: 'Q {{QUESTION}}'}, "+
		"{name: final, user_prompt_template: 'Q {{QUESTION}} {{draft}}'}]%s}}}\n", up.URL, more)
}

// sang sends a question to a path and returns the number of calls that it took, and the answer.
func sang(t *testing.T, up *chorus, p *process, path, credential, body string) (calls int32, answer string) {
	t.Helper()
	before := up.calls.Load()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", credential)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if status := resp.Header.Get("Sidenote-Status"); err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(status, "staged; ") || !strings.HasSuffix(status, "stages=2") {
		t.Fatalf("%s, %s, %v: %s", resp.Status, status, err, text)
	}
	return up.calls.Load() - before, string(text)
}

const (
	chatsAt  = "/v1/chat/completions"
	howLong  = `{"model":"m","messages":[{"role":"user","content":"How long is parental leave?"}]}`
	withUser = `{"model":"m","user":"b","messages":[{"role":"user","content":"How long is parental leave?"}]}`
)

// The output of a stage before the last is taken from the cache if all that it depends on is the
// same: the whole request, its upstream, and the caller's credentials.
func TestOutputsOfStagesAreRemembered(t *testing.T) {
	up := newChorus(t)
	p := serve(t, "--config", written(t, "c.yaml", stagesIn(up, ", cache: 10m")), "--state", ":memory:")
	_, first := sang(t, up, p, chatsAt, "Bearer a", howLong)
	for _, row := range []struct {
		what, path, credential, body string
		calls                        int32
	}{
		{"the same", chatsAt, "Bearer a", howLong, 1},
		{"another user", chatsAt, "Bearer a", withUser, 2},
		{"that user again", chatsAt, "Bearer a", withUser, 1},
		{"another model", chatsAt, "Bearer a", strings.Replace(howLong, `"m"`, `"n"`, 1), 2},
		{"more said before", chatsAt, "Bearer a", strings.Replace(howLong, `[{`, `[{"role":"system","content":"Be brief."},{`, 1), 2},
		{"another's credentials", chatsAt, "Bearer b", howLong, 2},
		{"credentials of another scheme", chatsAt, "Basic YTpi", howLong, 2},
		{"others of that scheme", chatsAt, "Basic YTpj", howLong, 2},
		{"another deployment", "/openai/deployments/x/chat/completions?api-version=1", "Bearer a", howLong, 2},
		{"a third deployment", "/openai/deployments/y/chat/completions?api-version=1", "Bearer a", howLong, 2},
		{"another version", "/openai/deployments/y/chat/completions?api-version=2", "Bearer a", howLong, 2},
	} {
		calls, answer := sang(t, up, p, row.path, row.credential, row.body)
		if calls != row.calls {
			t.Errorf("%s: %d calls, want %d", row.what, calls, row.calls)
		}
		if row.what == "the same" && !strings.Contains(answer, text(first)) {
			t.Errorf("the answer was %s, and is %s", first, answer)
		}
	}
}

// text returns the text of an answer.
func text(answer string) string {
	_, rest, _ := strings.Cut(answer, `"content":"`)
	said, _, _ := strings.Cut(rest, `"`)
	return said
}

// Nothing is cached unless the policy says so, which a reload can change.
func TestOutputsOfStagesAreOffByDefault(t *testing.T) {
	up := newChorus(t)
	path := written(t, "c.yaml", stagesIn(up, ""))
	env := func(name string) (string, bool) { return "t0ken", name == "SIDENOTE_ADMIN_TOKEN" }
	p := serveIn(t, env, "--config", path, "--state", ":memory:")
	asks := func(want ...int32) {
		t.Helper()
		for n, want := range want {
			if calls, _ := sang(t, up, p, chatsAt, "Bearer a", howLong); calls != want {
				t.Errorf("question %d takes %d calls, want %d", n, calls, want)
			}
		}
	}
	asks(2, 2)
	if strings.Contains(metricsOf(t, p), `cache="outputs"`) {
		t.Error("there is a memory of outputs")
	}
	for more, want := range map[string][]int32{", cache: 10m": {2, 1}, ", cache: 0s": {2, 2}} {
		if err := os.WriteFile(path, []byte(stagesIn(up, more)), 0o600); err != nil {
			t.Fatal(err)
		}
		reloaded(t, p, http.StatusOK)
		asks(want...)
	}
}

// Replicas on one Redis share outputs. A Redis that dies or holds garbage costs a call, never an
// answer.
func TestOutputsOfStagesAreShared(t *testing.T) {
	up, server := newChorus(t), redistest.Start(t)
	path := written(t, "c.yaml", stagesIn(up, ", cache: 10m")+fmt.Sprintf("redis: {url: %q, timeout: 500ms}\n", server.URL()))
	replica := func() *process {
		p := serve(t, "--config", path, "--state", ":memory:")
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(20 * time.Second); !strings.Contains(metricsOf(t, p), `sidenote_breaker_open{name="redis/outputs"} 0`); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("Redis is never asked: %s", metricsOf(t, p))
			}
		}
		return p
	}
	asks := func(p *process, want int32) {
		t.Helper()
		if calls, _ := sang(t, up, p, chatsAt, "Bearer a", howLong); calls != want {
			t.Errorf("%d calls, want %d", calls, want)
		}
	}
	a, b, c, d, e := replica(), replica(), replica(), replica(), replica()
	asks(a, 2)
	asks(b, 1)
	server.Do("SET", strings.TrimSpace(server.Do("KEYS", "*:outputs:*")), string(bytes.Repeat([]byte("nonsense"), 20)))
	asks(c, 2)
	asks(c, 1)
	key := strings.TrimSpace(server.Do("KEYS", "*:outputs:*"))
	// The forged value expires in 2039 and has the digest of its key.
	digest := [32]byte([]byte(server.Do("GET", key))[4:])
	forged := cache.Seal(cache.Key{Kind: cache.Outputs, Tenant: "default", Digest: digest}, []byte("\x00\x00\x00\x00\x00\x02\x00\x00no answer of a model"))
	server.Do("SET", key, string(forged))
	asks(e, 2)
	server.Kill()
	asks(d, 2)
	asks(a, 1)
}
