package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"sidenote/rewrite/tags"
	"sidenote/rewrite/tags/tagstest"
)

// sdkClient returns the official SDK with only its base URL changed; sent is its last request as
// sent.
func sdkClient(p *process, sent *[]byte) openai.Client {
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

// injectedInto checks that got is sent with one insertion, and returns the sources in it.
func injectedInto(t *testing.T, sent, got []byte) []tagstest.Parsed {
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
	sources, err := tagstest.ParseSources(text[at : end+len(tags.SourcesClose)])
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

// scenarios are questions as apps ask them.
func scenarios() map[string]openai.ChatCompletionNewParams {
	with := func(change func(*openai.ChatCompletionNewParams)) openai.ChatCompletionNewParams {
		params := question("gpt-4o")
		change(&params)
		return params
	}
	return map[string]openai.ChatCompletionNewParams{
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
	}
}

// The official SDK, unchanged but for its base URL, gets grounded answers; the upstream gets what
// the SDK sent, with the sources in it.
func TestSDK(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := sdkClient(p, &sent)

	for name, params := range scenarios() {
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
			if s := resp.Header.Get("Sidenote-Sources"); s != `"1";kb="handbook";doc="leave.md";name="Leave policy";section="Parental leave"` {
				t.Errorf("Sidenote-Sources: %s", s)
			}
		})
	}
}

func TestSDKStream(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL+"/v1", "--knowledge", handbook(t))
	var sent []byte
	sdk := sdkClient(p, &sent)
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

// Errors of the upstream reach the SDK unchanged; Sidenote's own have the same shape.
func TestSDKErrors(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := sdkClient(p, &sent)

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

// Nothing else about the app's traffic changes: other routes are relayed byte for byte, without
// Sidenote headers.
func TestSDKOtherRoutes(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := sdkClient(p, &sent)
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

// A real tree of Markdown and code by other authors: the SDK's own module, with -short some of its folders.
func TestSDKRealTree(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openai/openai-go/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	up, dir := newRecorder(t), strings.TrimSpace(string(out))
	knowledge := fmt.Sprintf("{path: %q}", dir)
	if testing.Short() {
		knowledge = fmt.Sprintf("{path: %q, include: [README.md, client.go, 'a*.go', 'docs/**', 'option/**', 'webhooks/**'], exclude: ['admin*']}", dir)
	}
	p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {sdk: %s}\n", up.URL, knowledge)))
	var sent []byte
	sdk := sdkClient(p, &sent)
	ask := question("gpt-4o")
	ask.Messages[1] = openai.UserMessage("How do I verify the signature of a webhook?")

	if _, err := sdk.Chat.Completions.New(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	sources := injectedInto(t, sent, up.last(t).body)
	// The function itself and the README's section about it are found; its tests, which repeat its
	// words in every case, may rank above them but not replace them.
	var function, section bool
	for _, src := range sources[:min(len(sources), 3)] {
		function = function || src.Doc == "webhooks/webhook.go" && strings.Contains(src.Section, "VerifySignature")
		section = section || src.Doc == "README.md" && strings.Contains(src.Section, "Webhook Verification")
	}
	if !function || !section {
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
