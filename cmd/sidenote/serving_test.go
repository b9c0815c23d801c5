package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// A recorder is an upstream that records requests and answers in the shape of OpenAI's API: streams
// and several choices on request, a call of the tool weather if that is offered, errors for the
// models that are named after them.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	requests []recorded
}

type recorded struct {
	method, target string
	header         http.Header
	body           []byte
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	u := &recorder{}
	u.Server = httptest.NewServer(http.HandlerFunc(u.answer))
	t.Cleanup(u.Close)
	return u
}

func (u *recorder) last(t *testing.T) recorded {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.requests) == 0 {
		t.Fatal("nothing reached the upstream")
	}
	return u.requests[len(u.requests)-1]
}

func (u *recorder) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.requests)
}

func (u *recorder) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	u.requests = append(u.requests, recorded{r.Method, r.RequestURI, r.Header.Clone(), body})
	number := len(u.requests)
	u.mu.Unlock()
	var req struct {
		Model  string
		Stream bool
		N      int
		Tools  []struct{ Function struct{ Name string } }
	}
	if json.Unmarshal(body, &req) != nil && len(body) > 0 {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case req.Model == "error-429":
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded","param":null}}`)
	case strings.HasSuffix(r.URL.Path, "/responses/input_tokens"):
		fmt.Fprint(w, `{"object":"response.input_tokens","input_tokens":120}`)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		respond(w, body, req.Stream, fmt.Sprintf("resp_%d", number))
	case req.Model == "gpt-calling" && !bytes.Contains(body, []byte(`"tool_call_id"`)):
		call := `{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"search_knowledge","arguments":"{\"query\":\"bonus sk-canary-written-by-a-model\"}"}}]}`
		if req.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"id\":\"c0\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n", call)
			return
		}
		fmt.Fprintf(w, `{"id":"c0","object":"chat.completion","choices":[{"index":0,"message":%s,"finish_reason":"tool_calls"}]}`, call)
	case req.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range []string{"Six", "teen", " weeks [1]."} {
			fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", delta)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	default:
		choice := `"message":{"role":"assistant","content":"Sixteen weeks [1].","refusal":null},"finish_reason":"stop","logprobs":null`
		if len(req.Tools) > 0 && req.Tools[0].Function.Name == "weather" {
			choice = `"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},"finish_reason":"tool_calls","logprobs":null`
		}
		var choices []string
		for i := range max(req.N, 1) {
			choices = append(choices, fmt.Sprintf(`{"index":%d,%s}`, i, choice))
		}
		fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[%s],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, strings.Join(choices, ","))
	}
}

// respond answers a request of the Responses API with a text, or with a call of the tool weather if
// that is offered and its output is not among the input.
func respond(w http.ResponseWriter, body []byte, stream bool, id string) {
	item := `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Sixteen weeks [1].","annotations":[]}]}`
	if bytes.Contains(body, []byte(`"weather"`)) && !bytes.Contains(body, []byte(`"function_call_output"`)) {
		item = `{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"weather","arguments":"{}"}`
	}
	response := func(status, output, usage string) string {
		return `{"id":"` + id + `","object":"response","created_at":1,"status":"` + status + `","error":null,"incomplete_details":null,"instructions":null,"metadata":{},"model":"m","output":[` + output +
			`],"parallel_tool_calls":true,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1,"usage":` + usage + `}`
	}
	const usage = `{"input_tokens":120,"input_tokens_details":{"cached_tokens":20},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":126}`
	if !stream {
		fmt.Fprint(w, response("completed", item, usage))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	event := func(name, members string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", name, name, n, members)
		w.(http.Flusher).Flush()
		n++
	}
	event("response.created", `"response":`+response("in_progress", "", "null"))
	if strings.Contains(item, "output_text") {
		const at = `"item_id":"msg_1","output_index":0,"content_index":0,`
		event("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`)
		event("response.content_part.added", at+`"part":{"type":"output_text","text":"","annotations":[]}`)
		for _, delta := range []string{"Six", "teen", " weeks [1]."} {
			event("response.output_text.delta", at+fmt.Sprintf(`"logprobs":[],"delta":%q`, delta))
		}
		event("response.output_text.done", at+`"logprobs":[],"text":"Sixteen weeks [1]."`)
		event("response.content_part.done", at+`"part":{"type":"output_text","text":"Sixteen weeks [1].","annotations":[]}`)
	}
	event("response.output_item.done", `"output_index":0,"item":`+item)
	event("response.completed", `"response":`+response("completed", item, usage))
}

// handbook returns a folder of two documents.
func handbook(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "handbook")
	for name, text := range map[string]string{
		"leave.md":  "# Leave policy\n\n## Parental leave\n\nEvery parent may take 16 weeks of parental leave on full pay.\n",
		"travel.md": "# Travel\n\n## Booking\n\nBook trains through the office; flights need the approval of your manager.\n",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A process is Sidenote, run as its users run it.
type process struct {
	data, admin string // base URLs
	token       string // of the admin port, for writes; "" where nobody made or gave one
	out         *announced
	stop        func() int
}

// announced passes on what is written to it and reports when a text has come.
type announced struct {
	mu    sync.Mutex
	text  bytes.Buffer
	more  chan struct{}
	ended chan struct{} // closed when nothing more will come
}

func (a *announced) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(p)
	select {
	case a.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// until returns the text once it contains want.
func (a *announced) until(t *testing.T, want string) string {
	t.Helper()
	for {
		a.mu.Lock()
		text := a.text.String()
		a.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-a.more:
		case <-a.ended:
			t.Fatalf("never said %q: %s", want, text)
		}
	}
}

// serve starts sidenote serve with args and waits until its knowledge is indexed.
func serve(t *testing.T, args ...string) *process {
	t.Helper()
	return serveIn(t, noEnv, args...)
}

// serveIn is serve in an environment.
func serveIn(t *testing.T, env func(string) (string, bool), args ...string) *process {
	t.Helper()
	return serveBy(t, func(ctx context.Context, args []string, out io.Writer) int {
		return Run(ctx, args, strings.NewReader(""), io.Discard, out, env)
	}, args...)
}

// serveBy is serve with another function than Run.
func serveBy(t *testing.T, run func(ctx context.Context, args []string, out io.Writer) int, args ...string) *process {
	t.Helper()
	admin, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	all := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", admin}, args...)
	go func() {
		defer close(out.ended)
		code <- run(ctx, all, out)
	}()
	p := &process{admin: "http://" + admin, out: out, stop: sync.OnceValue(func() int { cancel(); return <-code })}
	t.Cleanup(func() {
		if c := p.stop(); c != exitDone {
			t.Errorf("exit code %d: %s", c, out.text.String())
		}
	})
	text := out.until(t, "in this process") // the last line, when all is indexed
	_, rest, _ := strings.Cut(text, "http://")
	p.data = "http://" + rest[:strings.IndexAny(rest, "/ \n")]
	if at := slices.Index(args, "--state"); at >= 0 {
		p.token, _ = store.AdminToken(args[at+1]) // there is none in memory
	}
	return p
}
