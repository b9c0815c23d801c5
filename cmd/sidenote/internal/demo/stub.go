package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sidenote/cmd/sidenote/internal/billing"
)

// MaxRequest is the largest request body that a Stub reads, in bytes.
const MaxRequest = 32 << 20

// A Stub is an upstream with OpenAI's and Anthropic's APIs. It answers only from the <source> elements in the
// messages, and plays the stages of the presets. The zero value is ready to use; it is safe for
// concurrent use.
type Stub struct {
	Billing *billing.Meter // computes the usage of requests; nil for an estimate without a prompt cache

	mu   sync.Mutex
	kept []Exchange
}

// An Exchange is a chat that a Stub answered.
type Exchange struct {
	Part    Part
	Request []byte // its body as received
	Answer  string
}

// maxKept limits the remembered chats.
const maxKept = 16

// LastRequest returns the body of the most recent chat, as received.
func (s *Stub) LastRequest() []byte {
	kept := s.Exchanges()
	if len(kept) == 0 {
		return nil
	}
	return kept[len(kept)-1].Request
}

// Exchanges returns the most recent chats, oldest first.
func (s *Stub) Exchanges() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept)
}

func (s *Stub) keep(e Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept[max(0, len(s.kept)-maxKept+1):], e)
}

// ServeHTTP answers POST /v1/chat/completions, /v1/responses and /v1/messages, streaming or not, POST
// /v1/messages/count_tokens, GET /v1/models and, with billing, GET /billing; anything else is an
// error in OpenAI's format.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/models":
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
			map[string]any{"id": "demo", "object": "model", "created": created, "owned_by": "sidenote"},
		}})
	case r.Method == http.MethodGet && r.URL.Path == "/billing" && s.Billing != nil:
		writeJSON(w, http.StatusOK, s.Billing.Totals())
	case !slices.Contains([]string{"/v1/chat/completions", "/v1/responses", messagesPath, countPath}, r.URL.Path):
		writeError(w, http.StatusNotFound, "unknown_url", fmt.Sprintf("Unknown request URL: %s %s", r.Method, r.URL.Path))
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "Use POST.")
	default:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
		switch {
		case err != nil:
			writeError(w, http.StatusRequestEntityTooLarge, "request_too_large", "The request could not be read whole.")
		case r.URL.Path == "/v1/responses":
			s.responses(w, body)
		case r.URL.Path == messagesPath || r.URL.Path == countPath:
			s.messages(w, body, r.URL.Path == countPath)
		default:
			s.chat(w, body)
		}
	}
}

// The paths of the Messages API.
const (
	messagesPath = "/v1/messages"
	countPath    = "/v1/messages/count_tokens"
)

// created is the time in all answers, so that they never differ.
const created = 1735689600

type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	N             int           `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a message's text, from a string or a list of parts.
type content string

// UnmarshalJSON joins the text parts by line feeds and skips other parts. Search results become
// <source> elements.
func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil { // null too
		*c = content(text)
		return nil
	}
	var parts []struct {
		Text string
		searchResult
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return errors.New("content is neither a string nor a list of parts")
	}
	texts := make([]string, 0, len(parts))
	results := 0
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
		if p.Type == "search_result" {
			results++
			texts = append(texts, p.element(results))
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

func (s *Stub) chat(w http.ResponseWriter, body []byte) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_json", "We could not parse the JSON body of your request.")
		return
	}
	if req.Model == "" || len(req.Messages) == 0 {
		writeError(w, http.StatusBadRequest, "missing_required_parameter", "The request needs model and messages.")
		return
	}
	if req.N < 1 {
		req.N = 1
	}
	if req.N > 128 {
		writeError(w, http.StatusBadRequest, "integer_above_max_value", "n is at most 128.")
		return
	}
	part, answer := play(req.texts())
	used, err := s.bill(billing.Chat, body, req, answer)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	s.keep(Exchange{part, body, answer})
	usage := used.chat()
	if req.Stream {
		stream(w, req, answer, usage)
		return
	}
	choices := make([]any, req.N)
	for i := range choices {
		choices[i] = map[string]any{"index": i, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": answer}}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id": "chatcmpl-demo", "object": "chat.completion", "created": created, "model": req.Model, "choices": choices, "usage": usage,
	})
}

// texts returns the text of all messages, and the last question.
func (r chatRequest) texts() (all, question string) {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(string(m.Content) + "\n")
		if m.Role == "user" {
			question = string(m.Content)
		}
	}
	return b.String(), question
}

// stream sends the answer word by word as server-sent events.
func stream(w http.ResponseWriter, req chatRequest, answer string, usage map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	send := func(choices []any, usage any) {
		event := map[string]any{"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": created, "model": req.Model, "choices": choices}
		if usage != nil {
			event["usage"] = usage
		}
		fmt.Fprintf(w, "data: %s\n\n", encode(event))
		_ = flush.Flush() // the server notices a client that left
	}
	delta := func(delta map[string]string, finish any) {
		for i := range req.N {
			send([]any{map[string]any{"index": i, "delta": delta, "finish_reason": finish}}, nil)
		}
	}
	delta(map[string]string{"role": "assistant", "content": ""}, nil)
	for _, word := range strings.SplitAfter(answer, " ") {
		delta(map[string]string{"content": word}, nil)
	}
	delta(map[string]string{}, "stop")
	if req.StreamOptions.IncludeUsage {
		send([]any{}, usage)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"message": message, "type": "invalid_request_error", "code": code, "param": nil,
	}})
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: answer cannot be encoded: " + err.Error())
	}
	return data
}
