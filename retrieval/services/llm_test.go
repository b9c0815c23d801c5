package services_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/services"
)

func completion(text string) string {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"choices":[{"message":{"role":"assistant","content":` + string(content) + `}}],"usage":{"prompt_tokens":90,"completion_tokens":7}}`
}

func serve(t *testing.T, handle http.HandlerFunc) *services.LLM {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := services.NewLLM(services.LLMOptions{Use: "planner", Name: "small", BaseURL: base})
	t.Cleanup(c.Close)
	return c
}

// A call carries its own credential, goes to chat completions or to the path of the client's
// request, and reports the usage.
func TestAsk(t *testing.T) {
	seen := make(chan [2]string, 1)
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- [2]string{r.RequestURI, r.Header.Get("Authorization")}
		_, _ = io.WriteString(w, completion("- a"))
	})
	p, err := services.NewPrompt(services.LLMModel{Name: "small"}, "rules", "q", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := services.LLMAnswer{Text: "- a", Usage: services.LLMUsage{Input: 90, Output: 7, Known: true}}
	for to, wantPath := range map[string]string{"": "/v1/chat/completions", "/openai/x/chat/completions?api-version=1": "/openai/x/chat/completions?api-version=1"} {
		got, err := api.Ask(t.Context(), services.LLMCall{Path: to, Header: http.Header{"Authorization": {"Bearer theirs"}}}, p)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", to, err, diff)
		}
		if sent := <-seen; sent != [2]string{wantPath, "Bearer theirs"} {
			t.Errorf("%q: sent %q", to, sent)
		}
	}
	if _, err := api.Ask(t.Context(), services.LLMCall{}, p); err != nil {
		t.Error(err)
	}
	if sent := <-seen; sent[1] != "" {
		t.Errorf("without a credential: sent %q", sent)
	}
}

// On the path of the Messages API a prompt has its form, and so has the answer.
func TestAskMessages(t *testing.T) {
	var path, version, body string
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		path, version, body = r.RequestURI, r.Header.Get("Anthropic-Version"), string(sent)
		_, _ = io.WriteString(w, `{"type":"message","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"- a"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":60,"output_tokens":7}}`)
	})
	p, err := services.NewPrompt(services.LLMModel{Name: "small", Effort: "low"}, "rules", "q", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := services.LLMAnswer{Text: "- a", Usage: services.LLMUsage{Input: 90, Output: 7, Known: true}}
	for given, wantVersion := range map[string]string{"": "2023-06-01", "2024-01-01": "2024-01-01"} {
		to := services.LLMCall{Path: "/v1/messages?beta=true", Header: http.Header{"X-Api-Key": {"theirs"}}}
		if given != "" {
			to.Header.Set("Anthropic-Version", given)
		}
		got, err := api.Ask(t.Context(), to, p)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		const wantBody = `{"model":"small","system":"rules","messages":[{"role":"user","content":"\"q\""}],"max_tokens":10,"temperature":0}`
		if path != "/v1/messages?beta=true" || version != wantVersion || body != wantBody {
			t.Errorf("sent %s %s %s", path, version, body)
		}
		if given == "" && len(to.Header) != 1 {
			t.Error("the header was changed")
		}
	}
}

// An upstream counts the prompt of a request: without what only the answer depends on.
func TestCountTokens(t *testing.T) {
	var got, answer string
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		got = r.RequestURI + " " + r.Header.Get("X-Api-Key") + " " + string(sent)
		_, _ = io.WriteString(w, answer)
	})
	const body = `{"model":"m","max_tokens":9,"stream":true,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"q"}],"thinking":{"type":"adaptive"},"metadata":{}}`
	const want = `/v1/messages/count_tokens?beta=true theirs {"model":"m","system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"q"}],"thinking":{"type":"adaptive"}}`
	to := services.LLMCall{Path: "/v1/messages?beta=true", Header: http.Header{"X-Api-Key": {"theirs"}}}
	for _, c := range []struct {
		answer, body string
		tokens       int
	}{{`{"input_tokens":12}`, body, 12}, {`{}`, body, 0}, {`no`, body, 0}, {`{"input_tokens":-1}`, body, 0}, {`{"input_tokens":12}`, "[", 0}} {
		answer = c.answer
		if n, err := api.CountTokens(t.Context(), to, []byte(c.body)); n != c.tokens || (err == nil) != (c.tokens > 0) {
			t.Errorf("%s: %d, %v", c.answer, n, err)
		}
		if got != want {
			t.Errorf("sent %s", got)
		}
	}
}

// An API that fails, sends nonsense or never ends costs no more than the deadline, and the error
// says what happened.
func TestAskFails(t *testing.T) {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		api   http.HandlerFunc
		is    error  // wrapped by the error
		text  string // part of the error
		tells bool   // reported by Trouble
	}{
		"refused":          {says(401, `{"error":{"message":"sk-secret","code":"invalid_api_key"}}`), nil, "401 (invalid_api_key)", false},
		"down":             {says(500, "oops"), nil, "answered 500", true},
		"not JSON":         {says(200, "<html>"), nil, "not JSON", true},
		"an error in 200":  {says(200, `{"error":{"message":"overloaded"}}`), services.ErrNoCompletion, "no text", false},
		"no choices":       {says(200, `{"choices":[]}`), services.ErrNoCompletion, "no text", false},
		"content null":     {says(200, `{"choices":[{"message":{"content":null}}]}`), services.ErrNoCompletion, "no text", false},
		"content of parts": {says(200, `{"choices":[{"message":{"content":[]}}]}`), services.ErrNoCompletion, "no text", false},
		"only thoughts":    {says(200, `{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`), services.ErrNoCompletion, "no text", false},
		"a number":         {says(200, `{"choices":[{"message":{"content":1}}]}`), services.ErrNoCompletion, "not a chat completion", false},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, context.DeadlineExceeded, "in time", true},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"choices":"`)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, nil, "larger than 1 MiB", true},
	} {
		t.Run(name, func(t *testing.T) {
			api := serve(t, c.api)
			p, err := services.NewPrompt(services.LLMModel{Name: "small"}, "rules", "q", 10)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if name == "hangs" {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			}
			defer cancel()
			_, err = api.Ask(ctx, services.LLMCall{}, p)
			if err == nil || !strings.Contains(err.Error(), c.text) || c.is != nil && !errors.Is(err, c.is) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want %q", err, c.text)
			}
			if told := len(api.Trouble()) > 0; told != c.tells {
				t.Errorf("trouble: %v", api.Trouble())
			}
		})
	}
}

// After five failures calls are skipped. A refusal of Sidenote's own key is trouble, of a client's
// key it is not.
func TestAskBreaks(t *testing.T) {
	var asked atomic.Int32
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	p, err := services.NewPrompt(services.LLMModel{Name: "small"}, "rules", "q", 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_, err = api.Ask(t.Context(), services.LLMCall{}, p)
	}
	if !errors.Is(err, services.ErrDown) || asked.Load() != 5 || !api.Skips() {
		t.Errorf("%v after %d calls", err, asked.Load())
	}
	for own, want := range map[bool]int{true: 1, false: 0} {
		api := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		_, err := api.Ask(t.Context(), services.LLMCall{Own: own}, p)
		if lines := api.Trouble(); err == nil || len(lines) != want || api.Skips() {
			t.Errorf("own %v: %v, trouble %v", own, err, lines)
		}
	}
}

// Whatever parameter a model refuses and in whatever words: the call is repeated without it, and
// later calls to the same model omit it.
func TestAskLeavesOutWhatModelRefuses(t *testing.T) {
	says := func(param, message string) string {
		body, err := json.Marshal(map[string]any{"error": map[string]any{"message": message, "param": param}})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for name, c := range map[string]struct {
		model   services.LLMModel
		refuses map[string]string // answers by parameter, in alphabetical order
		status  int
		calls   []int          // requests of each Ask
		want    map[string]any // fields of the last request, in addition to those of all
	}{
		"a temperature": {services.LLMModel{}, map[string]string{"temperature": says("", "`temperature` is deprecated for this model.")}, 400, []int{2, 1, 1},
			map[string]any{"max_tokens": 10.}},
		"an effort": {services.LLMModel{Effort: "low", Reasoning: 90}, map[string]string{"reasoning_effort": says("", "Model x does not support parameter reasoningEffort.")}, 400, []int{2, 1},
			map[string]any{"max_tokens": 100., "temperature": 0.}},
		"an unknown member": {services.LLMModel{Effort: "low", FixedTemperature: true}, map[string]string{"reasoning_effort": `{"detail":[{"loc":["body","reasoning_effort"],"msg":"Extra inputs are not permitted"}]}`}, 422, []int{2, 1},
			map[string]any{"max_tokens": 10.}},
		"the name of the limit": {services.LLMModel{}, map[string]string{
			"max_tokens":  says("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
			"temperature": says("temperature", "Unsupported value"),
		}, 400, []int{2, 1}, map[string]any{"max_completion_tokens": 10.}},
		"a limit": {services.LLMModel{CompletionCap: true}, map[string]string{"max_completion_tokens": says("", "'max_completion_tokens' is too large: 10.")}, 400, []int{2, 1},
			map[string]any{}},
		"two": {services.LLMModel{Effort: "low"}, map[string]string{
			"temperature": says("temperature", "No."), "reasoning_effort": says("reasoning_effort", "No."),
		}, 400, []int{-2, 1, 1}, map[string]any{"max_tokens": 10.}},
		"its messages": {services.LLMModel{}, map[string]string{"messages": says("messages", "temperature")}, 400, []int{-1, -1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			last := make(chan map[string]any, 8)
			api := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				var body map[string]any
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				for _, param := range slices.Sorted(maps.Keys(c.refuses)) { // a service names the first one
					if _, sent := body[param]; sent {
						w.WriteHeader(c.status)
						_, _ = io.WriteString(w, c.refuses[param])
						return
					}
				}
				last <- body
				_, _ = io.WriteString(w, completion("- a"))
			})
			c.model.Name = "m"
			p, err := services.NewPrompt(c.model, "rules", "q", 10)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.calls {
				calls.Store(0)
				a, err := api.Ask(t.Context(), services.LLMCall{Own: true}, p)
				if works := want > 0; works != (err == nil && a.Text == "- a") || int(calls.Load()) != max(want, -want) {
					t.Errorf("ask %d: %v, %v after %d calls, want %d", i, a, err, calls.Load(), want)
				}
			}
			if c.want == nil {
				return
			}
			if lines := api.Trouble(); len(lines) > 0 {
				t.Errorf("trouble: %v", lines)
			}
			var got map[string]any
			for len(last) > 0 {
				got = <-last
			}
			for _, name := range []string{"model", "messages", "stream"} {
				if _, ok := got[name]; !ok {
					t.Errorf("the request lacks %s", name)
				}
				delete(got, name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}
