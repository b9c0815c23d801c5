package llm

import (
	"encoding/json"
	"fmt"
)

// reasoningTokens are what an answer may have beside its text where the model takes
// max_completion_tokens: it thinks first, in tokens of the same limit.
const reasoningTokens = 1536

// A Model is what a prompt depends on of a model.
type Model struct {
	Name          string
	CompletionCap bool // takes max_completion_tokens and refuses max_tokens
}

// A Prompt is what a model is asked, as JSON.
type Prompt struct {
	Text   string // of its messages, for counting
	Output int    // tokens that the answer may have
	body   []byte
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// NewPrompt asks a model for an answer of at most so many tokens to data, a value that is written
// as JSON behind the rules: a string in it cannot end before its end.
func NewPrompt(m Model, rules string, data any, output int) (Prompt, error) {
	quoted, err := json.Marshal(data)
	if err != nil {
		return Prompt{}, fmt.Errorf("encode the data of a prompt: %w", err)
	}
	request := struct {
		Model         string    `json:"model"`
		Messages      []message `json:"messages"`
		MaxTokens     int       `json:"max_tokens,omitempty"`
		MaxCompletion int       `json:"max_completion_tokens,omitempty"`
		Temperature   *int      `json:"temperature,omitempty"` // models that think take none
		Stream        bool      `json:"stream"`
	}{Model: m.Name, Messages: []message{{"system", rules}, {"user", string(quoted)}}}
	p := Prompt{Text: rules + "\n" + string(quoted), Output: output}
	if m.CompletionCap {
		p.Output += reasoningTokens
		request.MaxCompletion = p.Output
	} else {
		request.MaxTokens, request.Temperature = p.Output, new(int)
	}
	if p.body, err = json.Marshal(request); err != nil {
		return Prompt{}, fmt.Errorf("encode a prompt: %w", err)
	}
	return p, nil
}
