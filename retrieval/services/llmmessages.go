package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// messagesRoute is the end of the path of Anthropic's Messages API.
const messagesRoute = "/messages"

// messagesBody returns the request as the body of a call of the Messages API, where rules are the
// member system, and max_tokens is required.
func (r *request) messagesBody() []byte {
	body, err := json.Marshal(struct {
		Model       string    `json:"model"`
		System      string    `json:"system"`
		Messages    []message `json:"messages"`
		MaxTokens   int       `json:"max_tokens"`
		Temperature *int      `json:"temperature,omitempty"`
	}{r.Model, r.Messages[0].Content, r.Messages[1:], max(r.MaxTokens, r.MaxCompletion), r.Temperature})
	if err != nil {
		panic("BUG: encode a prompt: " + err.Error())
	}
	return body
}

// withMessagesVersion returns the header with a version of the API if it has none.
func withMessagesVersion(h http.Header) http.Header {
	const name, version = "Anthropic-Version", "2023-06-01"
	if h.Get(name) != "" {
		return h
	}
	if h = h.Clone(); h == nil {
		h = http.Header{}
	}
	h.Set(name, version)
	return h
}

// messagesUsage is the usage of an answer of the Messages API.
type messagesUsage struct {
	Input   int64 `json:"input_tokens"` // without the other two
	Written int64 `json:"cache_creation_input_tokens"`
	Cached  int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

func (u *messagesUsage) input() int64 { return u.Input + u.Written + u.Cached }

// CountTokens asks how many tokens the prompt of a request of the Messages API has, whose body is
// given; to.Path is that of messages. What does not belong to the prompt is left out, as the API
// refuses it.
func (c *LLM) CountTokens(ctx context.Context, to LLMCall, body []byte) (int, error) {
	var prompt struct {
		Model      json.RawMessage `json:"model"`
		System     json.RawMessage `json:"system,omitempty"`
		Messages   json.RawMessage `json:"messages"`
		Tools      json.RawMessage `json:"tools,omitempty"`
		ToolChoice json.RawMessage `json:"tool_choice,omitempty"`
		Thinking   json.RawMessage `json:"thinking,omitempty"`
	}
	if err := json.Unmarshal(body, &prompt); err != nil {
		return 0, fmt.Errorf("%s: %w", c.use, err)
	}
	sent, err := json.Marshal(prompt)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.use, err)
	}
	route, query, asked := strings.Cut(to.Path, "?")
	if route += "/count_tokens"; asked {
		route += "?" + query
	}
	answer, err := c.remote.CallAs(ctx, withMessagesVersion(to.Header), http.MethodPost, route, sent)
	if notes(err, to.Own) {
		c.health.Called(err)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.use, err)
	}
	var counted struct {
		Tokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal(answer, &counted); err != nil || counted.Tokens <= 0 {
		return 0, fmt.Errorf("%s: the answer has no number of tokens", c.use)
	}
	return counted.Tokens, nil
}
