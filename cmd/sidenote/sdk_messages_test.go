package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// A messagesUpstream is an upstream of the Messages API. It answers as if it had read the first
// source: with a marker, or with a citation if it got search results.
type messagesUpstream struct {
	*httptest.Server
	refusals []string // statuses and errors that come before answers

	mu       sync.Mutex
	requests []recorded
}

func newMessagesUpstream(t *testing.T, refusals ...string) *messagesUpstream {
	u := &messagesUpstream{refusals: refusals}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

// all returns the requests so far.
func (u *messagesUpstream) all() []recorded {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests
}

// A searchResult is a block of a request.
type searchResult struct {
	Type, Source, Title string
	Content             json.RawMessage
}

// resultsIn returns the search results of a body, in order.
func resultsIn(body []byte) (results []searchResult) {
	var r struct {
		Messages []struct{ Content json.RawMessage }
	}
	_ = json.Unmarshal(body, &r)
	for _, m := range r.Messages {
		var blocks []searchResult
		_ = json.Unmarshal(m.Content, &blocks)
		for _, b := range blocks {
			if b.Type == "search_result" {
				results = append(results, b)
			}
		}
	}
	return results
}

func (u *messagesUpstream) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Path, "/messages") { // Sidenote asks for the models
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests = append(u.requests, recorded{method: r.Method, target: r.URL.RequestURI(), header: r.Header, body: body})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_1")
	if len(u.refusals) > 0 {
		var status int
		var kind string
		_, _ = fmt.Sscan(u.refusals[0], &status, &kind)
		u.refusals = u.refusals[1:]
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"refused"},"request_id":"req_1"}`, kind)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/count_tokens") {
		_, _ = io.WriteString(w, `{"input_tokens":120}`)
		return
	}
	text, citation := "Sixteen weeks [1].", ""
	if results := resultsIn(body); len(results) > 0 {
		last := results[len(results)-1]
		var content []struct{ Text string }
		_ = json.Unmarshal(last.Content, &content)
		text = "Sixteen weeks."
		citation = fmt.Sprintf(`{"type":"search_result_location","cited_text":%s,"source":%q,"title":%q,"search_result_index":%d,"start_block_index":0,"end_block_index":1}`,
			jsonText(content[0].Text), last.Source, last.Title, len(results)-1)
	}
	const usage = `{"input_tokens":20,"cache_creation_input_tokens":60,"cache_read_input_tokens":40,"output_tokens":%d}`
	head := `"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","stop_sequence":null`
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		fmt.Fprintf(w, `{%s,"content":[{"type":"text","text":%q,"citations":[%s]}],"stop_reason":"end_turn","usage":`+usage+`}`, head, text, citation, 9)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(name, members string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", name, name, members)
	}
	event("message_start", `,"message":{`+head+`,"content":[],"stop_reason":null,"usage":`+fmt.Sprintf(usage, 1)+`}`)
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for piece := range strings.SplitAfterSeq(text, " ") {
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+jsonText(piece)+`}`)
	}
	if citation != "" {
		event("content_block_delta", `,"index":0,"delta":{"type":"citations_delta","citation":`+citation+`}`)
	}
	event("content_block_stop", `,"index":0`)
	event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":`+fmt.Sprintf(usage, 9))
	event("message_stop", "")
}

func jsonText(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// messagesSDK returns the official SDK with only its base URL changed; sent is its last request as
// sent.
func messagesSDK(p *process, sent *[]byte, retries int) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(p.data), option.WithAPIKey("sk-test"), option.WithMaxRetries(retries),
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

func messagesQuestion() anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "claude-opus-4-8", MaxTokens: 1000, System: []anthropic.TextBlockParam{{Text: "You are the HR assistant."}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("How many weeks of parental leave do I get?"))},
	}
}

// askMessages asks a question, streamed or not, and returns the answer as the SDK reads it.
func askMessages(t *testing.T, sdk *anthropic.Client, q anthropic.MessageNewParams, stream bool) anthropic.Message {
	t.Helper()
	if !stream {
		m, err := sdk.Messages.New(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return *m
	}
	events := sdk.Messages.NewStreaming(t.Context(), q)
	var m anthropic.Message
	for events.Next() {
		if err := m.Accumulate(events.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// The Messages API of the official SDK gets grounded answers whose citations it reads, whole and
// streamed. The upstream gets what the SDK sent with the sources in it, to answer as to count
// tokens, and the SDK's key.
func TestSDKMessages(t *testing.T) {
	for format, config := range map[string]string{
		"tags":          "policies: {default: {annotations: on}}\n",
		"search_result": "policies: {default: {annotations: on, sources: {format: search_result}}}\n",
	} {
		t.Run(format, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sidenote.yaml")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			up := newMessagesUpstream(t)
			p := serve(t, "--config", file, "--upstream", up.URL, "--knowledge", handbook(t))
			var sent []byte
			sdk := messagesSDK(p, &sent, 0)
			for _, stream := range []bool{false, true} {
				m := askMessages(t, &sdk, messagesQuestion(), stream)
				if len(m.Content) != 1 || !strings.HasPrefix(m.Content[0].Text, "Sixteen weeks") || m.StopReason != "end_turn" || m.Usage.OutputTokens != 9 || m.Usage.CacheCreationInputTokens != 60 {
					t.Fatalf("stream %t: %s", stream, m.RawJSON())
				}
				cited := m.Content[0].Citations
				if len(cited) != 1 {
					t.Fatalf("stream %t: citations %+v", stream, cited)
				}
				if c := cited[0].AsSearchResultLocation(); !strings.HasPrefix(c.Source, "sidenote://handbook/leave.md#") || !strings.Contains(c.Title, "Leave policy") || !strings.Contains(c.CitedText, "16 weeks") || c.SearchResultIndex != 0 || c.EndBlockIndex != 1 {
					t.Errorf("stream %t: %+v", stream, c)
				}
			}
			requests := up.all()
			last := requests[len(requests)-1]
			if !bytes.Contains(last.body, []byte("16 weeks")) || (len(resultsIn(last.body)) == 1) != (format == "search_result") {
				t.Errorf("the upstream got %s", last.body)
			}
			if last.header.Get("X-Api-Key") != "sk-test" || last.header.Get("Anthropic-Version") == "" || last.header.Get("Authorization") != "" {
				t.Errorf("the upstream got %v", last.header)
			}
			q := messagesQuestion()
			n, err := sdk.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
				Model: q.Model, Messages: q.Messages, System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: q.System},
			})
			if err != nil || n.InputTokens != 120 {
				t.Fatal(n, err)
			}
			counted, answered := up.all(), messagesOf(t, last.body)
			if got := messagesOf(t, counted[len(counted)-1].body); got != answered {
				t.Errorf("counted %s\nanswered %s", got, answered)
			}
		})
	}
}

// messagesOf returns the system text and the messages of a body.
func messagesOf(t *testing.T, body []byte) string {
	t.Helper()
	var r struct{ System, Messages json.RawMessage }
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	return string(r.System) + string(r.Messages)
}

// The official SDK reads the type of Sidenote's own errors, and retries what may succeed later.
func TestSDKMessagesErrors(t *testing.T) {
	up := newMessagesUpstream(t, "529 overloaded_error", "500 api_error", "529 overloaded_error")
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := messagesSDK(p, &sent, 3)
	if m := askMessages(t, &sdk, messagesQuestion(), false); len(m.Content) != 1 || len(up.all()) != 4 {
		t.Errorf("%d requests, %s", len(up.all()), m.RawJSON())
	}
	file := filepath.Join(t.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(file, []byte("policies: {default: {models: [claude-opus*], limits: {requests_per_minute: 1}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	limited := serve(t, "--config", file, "--upstream", up.URL, "--knowledge", handbook(t))
	sdk = messagesSDK(limited, &sent, 3)
	for _, c := range []struct {
		model   anthropic.Model
		option  option.RequestOption
		status  int // 0: there is no error
		kind    string
		message string
	}{
		{"claude-opus-4-8", option.WithHeader("Sidenote-Mode", "loud"), 400, "invalid_request_error", "Sidenote-Mode"},
		{"claude-haiku", option.WithHeader("X-A", "b"), 404, "not_found_error", "claude-haiku"},
		{"claude-opus-4-8", option.WithHeader("X-A", "b"), 0, "", ""},
		{"claude-opus-4-8", option.WithMaxRetries(0), 429, "rate_limit_error", "requests_per_minute"},
	} {
		q := messagesQuestion()
		q.Model = c.model
		_, err := sdk.Messages.New(t.Context(), q, c.option)
		var own *anthropic.Error
		if c.status == 0 && err == nil {
			continue
		}
		if !errors.As(err, &own) || own.StatusCode != c.status || string(own.Type()) != c.kind || !strings.Contains(own.RawJSON(), c.message) {
			t.Fatalf("%v, want %d %s with %q", err, c.status, c.kind, c.message)
		}
		if h := own.Response.Header; c.status == 429 && (h.Get("Anthropic-Ratelimit-Requests-Limit") != "1" || h.Get("X-Ratelimit-Limit-Requests") != "") {
			t.Errorf("headers %v", h)
		}
	}
}

// If the documents do not say anything about a question, the SDK reads the answer that the policy
// has for that, and no model is called.
func TestSDKMessagesFixedAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(file, []byte("policies: {default: {on_empty: refuse, empty_answer: \"Not in the handbook.\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := newMessagesUpstream(t)
	p := serve(t, "--config", file, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := messagesSDK(p, &sent, 0)
	q := messagesQuestion()
	q.Messages[0] = anthropic.NewUserMessage(anthropic.NewTextBlock("Xyzzy plugh?"))
	for _, stream := range []bool{false, true} {
		m := askMessages(t, &sdk, q, stream)
		if len(m.Content) != 1 || m.Content[0].Text != "Not in the handbook." || m.StopReason != "end_turn" || m.Model != q.Model || m.Usage.OutputTokens != 0 || len(up.all()) > 0 {
			t.Errorf("stream %t: %s", stream, m.RawJSON())
		}
	}
}
