package services

import (
	"encoding/json"
	"fmt"
)

// A LLMModel holds the properties of a model that its prompts depend on.
type LLMModel struct {
	Name             string
	CompletionCap    bool   // takes max_completion_tokens and refuses max_tokens
	FixedTemperature bool   // refuses a temperature
	Reasoning        int    // tokens for reasoning, in addition to those of the text
	Effort           string // reasoning_effort to send; "": none
}

// A Prompt is a request to a model.
type Prompt struct {
	Text    string // of its messages, for counting tokens
	Output  int    // maximum tokens of the answer
	request request
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A request is the body of a chat completion call.
type request struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	MaxTokens     int       `json:"max_tokens,omitempty"`
	MaxCompletion int       `json:"max_completion_tokens,omitempty"`
	Temperature   *int      `json:"temperature,omitempty"`
	Effort        string    `json:"reasoning_effort,omitempty"`
	Stream        bool      `json:"stream"`
}

// The parameters of a request that can be omitted.
const (
	paramMaxTokens     = "max_tokens"
	paramMaxCompletion = "max_completion_tokens"
	paramTemperature   = "temperature"
	paramEffort        = "reasoning_effort"
)

// optional returns the names of the set parameters that can be omitted.
func (r *request) optional() (names []string) {
	for name, has := range map[string]bool{
		paramMaxTokens: r.MaxTokens > 0, paramMaxCompletion: r.MaxCompletion > 0,
		paramTemperature: r.Temperature != nil, paramEffort: r.Effort != "",
	} {
		if has {
			names = append(names, name)
		}
	}
	return names
}

// without omits the refused parameters. Models that accept only max_completion_tokens are
// reasoning models, which refuse a temperature, too.
func (r request) without(refused ...Refusal) request {
	for _, refusal := range refused {
		switch refusal.Param {
		case paramMaxTokens:
			if refusal.Instead == paramMaxCompletion && r.MaxTokens > 0 {
				r.MaxCompletion, r.Temperature = r.MaxTokens, nil
			}
			r.MaxTokens = 0
		case paramMaxCompletion:
			if refusal.Instead == paramMaxTokens && r.MaxCompletion > 0 {
				r.MaxTokens = r.MaxCompletion
			}
			r.MaxCompletion = 0
		case paramTemperature:
			r.Temperature = nil
		case paramEffort:
			r.Effort = ""
		}
	}
	return r
}

// body returns the request as JSON.
func (r *request) body() []byte {
	body, err := json.Marshal(r)
	if err != nil {
		panic("BUG: encode a prompt: " + err.Error())
	}
	return body
}

// NewPrompt makes a prompt for an answer of at most output tokens, plus those for reasoning. data
// follows the rules as JSON, so that a string in it cannot break out of its quotes.
func NewPrompt(m LLMModel, rules string, data any, output int) (Prompt, error) {
	quoted, err := json.Marshal(data)
	if err != nil {
		return Prompt{}, fmt.Errorf("encode the data of a prompt: %w", err)
	}
	p := Prompt{Text: rules + "\n" + string(quoted), Output: output + m.Reasoning}
	p.request = request{Model: m.Name, Messages: []message{{"system", rules}, {"user", string(quoted)}}, Effort: m.Effort}
	if m.CompletionCap {
		p.request.MaxCompletion = p.Output
	} else {
		p.request.MaxTokens = p.Output
	}
	if !m.CompletionCap && !m.FixedTemperature {
		p.request.Temperature = new(int)
	}
	return p, nil
}
