package services

import (
	"encoding/json"
	"net/http"
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
