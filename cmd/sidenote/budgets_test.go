package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/proxy/admin"
)

// digestOf returns a key's digest as written in configurations.
func digestOf(key string) string { return fmt.Sprintf("{sha256: %x}", sha256.Sum256([]byte(key))) }

// A gate is an upstream that holds back chats until it opens.
func gate(t *testing.T, u *recorder) (url string, asked chan struct{}, open func()) {
	t.Helper()
	asked, opened := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked <- struct{}{}
			<-opened
		}
		u.answer(w, r)
	}))
	t.Cleanup(server.Close)
	open = sync.OnceFunc(func() { close(opened) })
	t.Cleanup(open) // before Close, which waits for handlers
	return server.URL, asked, open
}

// Row P7: a process is killed, then another one during a request. Nothing that was acknowledged is
// lost, no reservation remains, and the interrupted request is charged its estimate.
func TestBudgetKilledP7(t *testing.T) {
	state := t.TempDir()
	up := newRecorder(t)
	url, asked, open := gate(t, up)
	config := func(url string) string {
		return written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %q}\nstate: {path: %q}\n"+
			"policies: {default: {max_output_tokens: 100, limits: {tokens_per_day: 5000}}}\n", url, handbook(t), state))
	}
	data, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	port, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	start := func(url string) *process {
		out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
		cmd := exec.Command(released(t), "serve", "--config", config(url), "--listen", data, "--admin", port)
		cmd.Stderr = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := &process{data: "http://" + data, admin: "http://" + port, out: out}
		p.stop = sync.OnceValue(func() int {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			close(out.ended)
			return exitDone
		})
		t.Cleanup(func() { p.stop() })
		out.until(t, "in this process")
		return p
	}

	first := start(up.URL)
	if answers, _ := spends(t, 3, first); answers[200] != 3 {
		t.Fatalf("answers %v", answers)
	}
	before := first.settled(t, "default", 3)
	first.stop()
	second := start(url)
	if u := second.usage(t, "default"); u.Month.Spent != before.Month.Spent || u.Month.Spent.Tokens == 0 {
		t.Errorf("after the first kill %+v is spent, before %+v", u.Month.Spent, before.Month.Spent)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := http.Post(second.data+"/v1/chat/completions", "application/json", strings.NewReader(leaveQuestion))
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	<-asked
	held := second.usage(t, "default")
	if held.Month.Held.Requests != 1 || held.Month.Held.Tokens <= 100 || held.Parallel != 1 {
		t.Errorf("held by a request under way: %+v", held.Month.Held)
	}
	second.stop()
	if err := <-gone; err == nil {
		t.Error("the killed process has answered")
	}
	open()

	third := start(up.URL)
	after := third.usage(t, "default")
	if got, want := after.Month.Spent.Tokens, held.Month.Spent.Tokens+held.Month.Held.Tokens; got != want || after.Month.Spent.Requests != 4 ||
		after.Month.Held != (admin.UsageAmount{USD: "0"}) || after.Parallel != 0 {
		t.Errorf("after the kill %+v is spent and %+v held, before %+v and %+v", after.Month.Spent, after.Month.Held, held.Month.Spent, held.Month.Held)
	}
	if answers, _ := spends(t, 1, third); answers[200] != 1 {
		t.Errorf("answers %v", answers)
	}
	if u, one := third.settled(t, "default", 5), before.Month.Spent.Tokens/3; u.Month.Spent.Tokens != after.Month.Spent.Tokens+one {
		t.Errorf("then %+v is spent, want %d tokens more", u.Month.Spent, one)
	}
}

// Row P13: a tenant at ten times its limit is refused what exceeds it; other tenants are not
// affected.
func TestBudgetNoisyNeighbourP13(t *testing.T) {
	const limit, quiet = 12, 40
	up := newRecorder(t)
	p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
knowledge: {handbook: %q}
tenants:
  noisy: {keys: [%s], knowledge: [handbook], limits: {requests_per_minute: %d}}
  quiet: {keys: [%s], knowledge: [handbook], limits: {tokens_per_day: 10M}}
`, up.URL, handbook(t), digestOf(acmeKey), limit, digestOf(umbraKey))))
	ask := func(key string) (status int, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(leaveQuestion))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	var mu sync.Mutex
	of := map[string]map[int]int{acmeKey: {}, umbraKey: {}}
	count := func(key string) {
		status, err := ask(key)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		of[key][status]++
		mu.Unlock()
	}
	var all sync.WaitGroup
	all.Go(func() { each(10*limit, 8, func(int) { count(acmeKey) }) })
	all.Go(func() { each(quiet, 1, func(int) { count(umbraKey) }) })
	all.Wait()
	served := of[acmeKey][200]
	if served < limit || served+of[acmeKey][429] != 10*limit || of[umbraKey][200] != quiet {
		t.Errorf("noisy %v, quiet %v", of[acmeKey], of[umbraKey])
	}
	if up.chats() != served+quiet {
		t.Errorf("%d requests upstream, want %d", up.chats(), served+quiet)
	}
	p.settled(t, "quiet", quiet)
	p.settled(t, "noisy", served)
}

// The official SDK understands a refusal and waits as long as told; it does not retry if that
// cannot help.
func TestBudgetSDK(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
knowledge: {handbook: %q}
policies: {default: {max_output_tokens: 100}}
tenants:
  minute: {keys: [%s], knowledge: [handbook], limits: {requests_per_minute: 1}}
  day: {keys: [%s], knowledge: [handbook], limits: {tokens_per_day: 20}}
`, up.URL, handbook(t), digestOf(acmeKey), digestOf(umbraKey))))
	for _, c := range []struct {
		key, code, kind string
		granted         int
		want            map[string]string
		retries         string // as the SDK says in its last call
	}{
		{acmeKey, "rate_limit_exceeded", "requests", 1, map[string]string{"X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0", "X-Should-Retry": ""}, ""},
		{umbraKey, "insufficient_quota", "insufficient_quota", 0, map[string]string{"X-Should-Retry": "false"}, "0"},
	} {
		calls := 0
		sdk := openai.NewClient(option.WithBaseURL(p.data+"/v1"), option.WithAPIKey(c.key), option.WithMaxRetries(0))
		for range c.granted {
			if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o")); err != nil {
				t.Errorf("%s: %v", c.code, err)
			}
		}
		options := []option.RequestOption{option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			calls++
			return next(r)
		})}
		if c.retries != "" {
			options = append(options, option.WithMaxRetries(5)) // which it does not use
		}
		_, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), options...)
		api, ok := errors.AsType[*openai.Error](err)
		if !ok {
			t.Fatalf("%s: %v", c.code, err)
		}
		if api.StatusCode != 429 || api.Code != c.code || api.Type != c.kind || calls != 1 {
			t.Errorf("%d calls, %d %s %s: %s", calls, api.StatusCode, api.Code, api.Type, api.Message)
		}
		for name, want := range c.want {
			if got := api.Response.Header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", c.code, name, got, want)
			}
		}
		after := api.Response.Header.Get("Retry-After")
		if seconds := 0; c.granted > 0 {
			if _, err := fmt.Sscan(after, &seconds); err != nil || seconds < 1 || seconds > 60 {
				t.Errorf("Retry-After: %q", after)
			}
		}
	}
}

// Under a limit of tokens the upstream reports the usage of streams to Sidenote; the client sees it
// only if it asked.
func TestBudgetSDKStream(t *testing.T) {
	stub := &demo.Stub{}
	up := httptest.NewServer(stub)
	t.Cleanup(up.Close)
	p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(
		"upstream: %s\nknowledge: {handbook: %q}\npolicies: {default: {max_output_tokens: 100, limits: {tokens_per_day: 1M}}}\n", up.URL, handbook(t))))
	sdk := openai.NewClient(option.WithBaseURL(p.data+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0))
	stream := func(params openai.ChatCompletionNewParams) (text string, told []openai.CompletionUsage) {
		t.Helper()
		s := sdk.Chat.Completions.NewStreaming(t.Context(), params)
		for s.Next() {
			chunk := s.Current()
			if chunk.JSON.Usage.Valid() {
				told = append(told, chunk.Usage)
			}
			if len(chunk.Choices) > 0 {
				text += chunk.Choices[0].Delta.Content
			} else if !chunk.JSON.Usage.Valid() {
				t.Errorf("a chunk without choices and usage: %s", chunk.RawJSON())
			}
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		if !bytes.Contains(stub.LastRequest(), []byte(`"include_usage":true`)) {
			t.Errorf("the upstream was not asked for its usage: %s", stub.LastRequest())
		}
		return text, told
	}
	silent, told := stream(question("gpt-4o"))
	if len(told) > 0 || !strings.Contains(silent, "16 weeks") {
		t.Errorf("streamed %q, told %+v", silent, told)
	}
	first := p.settled(t, "default", 1).Month.Spent
	params := question("gpt-4o")
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	text, told := stream(params)
	if len(told) != 1 || told[0].TotalTokens == 0 || text != silent {
		t.Fatalf("streamed %q, told %+v", text, told)
	}
	both := p.settled(t, "default", 2).Month.Spent
	if first.Tokens != told[0].TotalTokens || both.Tokens != 2*first.Tokens || first.Injected == 0 {
		t.Errorf("spent %+v, then %+v; one took %d", first, both, told[0].TotalTokens)
	}
}

// On one connection, what a request reserved is free again for the next one.
func TestBudgetOneAtATime(t *testing.T) {
	p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nstate: \":memory:\"\n"+
		"policies: {default: {limits: {max_parallel_requests: 1, tokens_per_day: 1M}}}\n", newRecorder(t).URL)))
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	for i := range 30 {
		resp, err := client.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(leaveQuestion))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("request %d: %s", i, resp.Status)
		}
	}
}
