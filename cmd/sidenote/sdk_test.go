package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"sidenote/rewrite/tags"
)

// A recorder is an upstream that records what it was sent and answers in the shape of OpenAI's
// API: streams when asked to, as many choices as asked for, tool calls when it
// is shown tools, errors for the models that are named after them.
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
	u.mu.Unlock()
	var req struct {
		Model  string
		Stream bool
		N      int
		Tools  []any
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
	case req.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range []string{"Six", "teen", " weeks [1]."} {
			fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", delta)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	default:
		choice := `"message":{"role":"assistant","content":"Sixteen weeks [1].","refusal":null},"finish_reason":"stop","logprobs":null`
		if len(req.Tools) > 0 {
			choice = `"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},"finish_reason":"tool_calls","logprobs":null`
		}
		var choices []string
		for i := range max(req.N, 1) {
			choices = append(choices, fmt.Sprintf(`{"index":%d,%s}`, i, choice))
		}
		fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[%s],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, strings.Join(choices, ","))
	}
}

// handbook is a folder of two documents.
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
	stop        func() int
}

// announced hands on what is written to it and tells when a text has come.
type announced struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
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

// until returns the text once it holds want.
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
		case <-t.Context().Done():
			t.Fatalf("never said %q: %s", want, text)
		}
	}
}

// serve starts sidenote serve with args and waits until its knowledge is whole.
func serve(t *testing.T, args ...string) *process {
	t.Helper()
	admin, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	out := &announced{more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	all := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", admin}, args...)
	go func() {
		code <- Run(ctx, all, strings.NewReader(""), io.Discard, out, func(string) (string, bool) { return "", false })
	}()
	p := &process{admin: "http://" + admin, stop: sync.OnceValue(func() int { cancel(); return <-code })}
	t.Cleanup(func() {
		if c := p.stop(); c != exitDone {
			t.Errorf("exit code %d: %s", c, out.text.String())
		}
	})
	if strings.Contains(strings.Join(args, " "), "--knowledge") {
		out.until(t, "chunks")
	}
	text := out.until(t, "listening")
	_, rest, _ := strings.Cut(text, "http://")
	p.data = "http://" + rest[:strings.IndexAny(rest, "/ \n")]
	return p
}

// client is the official SDK with no other change than its base URL; sent is
// what it put on the wire last.
func client(p *process, sent *[]byte) openai.Client {
	return openai.NewClient(option.WithBaseURL(p.data+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			*sent = body
			r.Body = io.NopCloser(bytes.NewReader(body))
			return next(r)
		}))
}

// injectedInto checks that got is sent with one insertion, and returns the
// sources in it.
func injectedInto(t *testing.T, sent, got []byte) []tags.Parsed {
	t.Helper()
	if len(got) <= len(sent) {
		t.Fatalf("nothing was added: %s", got)
	}
	prefix := 0
	for prefix < len(sent) && sent[prefix] == got[prefix] {
		prefix++
	}
	suffix := 0
	for suffix < len(sent)-prefix && sent[len(sent)-1-suffix] == got[len(got)-1-suffix] {
		suffix++
	}
	if prefix+suffix != len(sent) {
		t.Fatalf("bytes outside the insertion differ\nsent %s\ngot  %s", sent, got)
	}
	var text string
	var c struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(got, &c); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(c.Messages[0].Content, &text); err != nil {
		t.Fatal(err)
	}
	at, end := strings.Index(text, tags.SourcesOpen), strings.LastIndex(text, tags.SourcesClose)
	if at < 0 || end < at {
		t.Fatalf("no sources in %q", text)
	}
	sources, err := tags.ParseSources(text[at : end+len(tags.SourcesClose)])
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("You are the HR assistant."),
		openai.UserMessage("How many weeks of parental leave do I get?"),
	}}
}

// The official SDK, unchanged but for its base URL, gets grounded answers; what
// the upstream is sent is what the SDK sent, with the sources in it.
func TestSDK(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := client(p, &sent)

	with := func(change func(*openai.ChatCompletionNewParams)) openai.ChatCompletionNewParams {
		params := question("gpt-4o")
		change(&params)
		return params
	}
	for name, params := range map[string]openai.ChatCompletionNewParams{
		"plain": question("gpt-4o"),
		"numbers": with(func(p *openai.ChatCompletionNewParams) {
			p.Temperature, p.TopP, p.Seed = openai.Float(0.1), openai.Float(1), openai.Int(9007199254740993)
		}),
		"n": with(func(p *openai.ChatCompletionNewParams) { p.N = openai.Int(2) }),
		"tools": with(func(p *openai.ChatCompletionNewParams) {
			p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: "weather", Strict: openai.Bool(true), Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{}},
			})}
		}),
		"schema": with(func(p *openai.ChatCompletionNewParams) {
			p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "answer", Strict: openai.Bool(true), Schema: map[string]any{"type": "object"},
			}}
		}),
		"image": with(func(p *openai.ChatCompletionNewParams) {
			p.Messages[1] = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("How many weeks of parental leave does this form give?"),
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0KGgo=", Detail: "low"}),
			})
		}),
		"developer": with(func(p *openai.ChatCompletionNewParams) { p.Messages[0] = openai.DeveloperMessage("Be brief.") }),
	} {
		t.Run(name, func(t *testing.T) {
			var resp *http.Response
			answer, err := sdk.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&resp))
			if err != nil {
				t.Fatal(err)
			}
			if want := max(1, int(params.N.Value)); len(answer.Choices) != want {
				t.Errorf("%d choices, want %d", len(answer.Choices), want)
			}
			if len(params.Tools) > 0 && answer.Choices[0].Message.ToolCalls[0].Function.Name != "weather" {
				t.Errorf("tool calls %v", answer.Choices[0].Message.ToolCalls)
			}
			got := up.last(t)
			sources := injectedInto(t, sent, got.body)
			if len(sources) != 1 || sources[0].Doc != "leave.md" || !strings.Contains(sources[0].Body, "16 weeks") {
				t.Errorf("sources %+v", sources)
			}
			if got.header.Get("Authorization") != "Bearer sk-test" || got.target != "/v1/chat/completions" {
				t.Errorf("%s with Authorization %q", got.target, got.header.Get("Authorization"))
			}
			if s := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(s, "injected; sources=1; ") {
				t.Errorf("Sidenote-Status: %s", s)
			}
			if s := resp.Header.Get("Sidenote-Sources"); s != `"1";kb="handbook";doc="leave.md";name="Leave policy"` {
				t.Errorf("Sidenote-Sources: %s", s)
			}
		})
	}
}

func TestSDKStream(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL+"/v1", "--knowledge", handbook(t))
	var sent []byte
	sdk := client(p, &sent)
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), question("gpt-4o"))
	var text strings.Builder
	for stream.Next() {
		text.WriteString(stream.Current().Choices[0].Delta.Content)
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text.String() != "Sixteen weeks [1]." {
		t.Errorf("streamed %q", text.String())
	}
	if sources := injectedInto(t, sent, up.last(t).body); len(sources) != 1 {
		t.Errorf("sources %+v", sources)
	}
	if !bytes.Contains(up.last(t).body, []byte(`"stream":true`)) {
		t.Error("the stream was turned off")
	}
}

// Errors of the upstream reach the SDK unchanged; ours have its shape.
func TestSDKErrors(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := client(p, &sent)

	_, err := sdk.Chat.Completions.New(t.Context(), question("error-429"))
	var api *openai.Error
	if !errors.As(err, &api) {
		t.Fatal(err)
	}
	if api.StatusCode != 429 || api.Code != "rate_limit_exceeded" || api.Message != "slow down" || api.Response.Header.Get("Retry-After") != "7" {
		t.Errorf("%d %q %q Retry-After %q", api.StatusCode, api.Code, api.Message, api.Response.Header.Get("Retry-After"))
	}
	before := up.count()
	_, err = sdk.Chat.Completions.New(t.Context(), question("gpt-4o"), option.WithJSONSet("sidenote", map[string]any{"mode": "loud"}))
	if !errors.As(err, &api) {
		t.Fatal(err)
	}
	if api.StatusCode != 400 || api.Param != "sidenote.mode" || !strings.Contains(api.Message, `"loud"`) {
		t.Errorf("%d param %q: %s", api.StatusCode, api.Param, api.Message)
	}
	up.Close()
	_, err = sdk.Chat.Completions.New(t.Context(), question("gpt-4o"))
	if !errors.As(err, &api) || api.StatusCode != 502 {
		t.Errorf("dead upstream: %v", err)
	}
	if up.count() != before {
		t.Error("a refused request reached the upstream")
	}
}

// Nothing else about the app's traffic changes: other routes pass byte for byte
// and carry no header of ours.
func TestSDKOtherRoutes(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := client(p, &sent)
	var resp *http.Response
	_, err := sdk.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "text-embedding-3-small", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("parental leave")}},
		option.WithResponseInto(&resp), option.WithHeader("Sidenote-Mode", "off"))
	if err != nil {
		t.Fatal(err)
	}
	got := up.last(t)
	if !bytes.Equal(got.body, sent) || got.target != "/v1/embeddings" {
		t.Errorf("%s got %s, want %s", got.target, got.body, sent)
	}
	for name := range got.header {
		if strings.HasPrefix(name, "Sidenote") {
			t.Errorf("%s reached the upstream", name)
		}
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Sidenote") {
			t.Errorf("%s on an answer that is not ours", name)
		}
	}
}

// A real tree of Markdown, as somebody else wrote it: the SDK's own module.
func TestSDKRealTree(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openai/openai-go/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", "sdk="+strings.TrimSpace(string(dir)))
	var sent []byte
	sdk := client(p, &sent)
	ask := question("gpt-4o")
	ask.Messages[1] = openai.UserMessage("How do I verify the signature of a webhook?")

	if _, err := sdk.Chat.Completions.New(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	sources := injectedInto(t, sent, up.last(t).body)
	if len(sources) == 0 || sources[0].Doc != "README.md" || !strings.Contains(sources[0].Section, "Webhook Verification") {
		t.Errorf("sources %+v", sources)
	}
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), ask)
	events := 0
	for stream.Next() {
		events++
	}
	if err := stream.Err(); err != nil || events != 3 {
		t.Errorf("%d events, %v", events, err)
	}
	if again := injectedInto(t, sent, up.last(t).body); len(again) != len(sources) {
		t.Errorf("%d sources streaming, %d not", len(again), len(sources))
	}
}
