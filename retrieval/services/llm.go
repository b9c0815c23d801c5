package services

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	llmPatience  = 5 * time.Second // models take a second or two
	maxLLMCalls  = 256             // at a time
	maxLLMAnswer = 1 << 20         // bytes
)

// LLMOptions say which API a Client asks. BaseURL is required.
type LLMOptions struct {
	Use     string   // what its models are asked for, for people: "planner"
	Name    string   // of the upstream, likewise
	BaseURL *url.URL // where the API begins; one without a path has /v1

	// Dial and TLS are those of RemoteOptions.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config

	// Changed is called when it stops answering, with a line that says so, and when it answers
	// again. It may be nil, and may be called concurrently.
	Changed func(line string, bad bool)
}

// A LLM asks the models of one API. It has no key: each call brings its own.
type LLM struct {
	remote *Remote
	health Health
	use    string
	path   string // of the API, without a slash at its end

	refused Memory // by path and model
}

// NewLLM returns a client. Call Close when done with it.
func NewLLM(o LLMOptions) *LLM {
	c := &LLM{use: o.Use, path: strings.TrimRight(o.BaseURL.EscapedPath(), "/")}
	if c.path == "" {
		c.path = "/v1"
	}
	c.health.Subject = fmt.Sprintf("%s: upstream %s at %s", o.Use, o.Name, o.BaseURL.Host)
	c.health.Changed = o.Changed
	c.remote = NewRemote(RemoteOptions{
		BaseURL: o.BaseURL.Scheme + "://" + o.BaseURL.Host, Dial: o.Dial, TLS: o.TLS,
		MaxAnswer: maxLLMAnswer, Calls: maxLLMCalls, Patience: llmPatience, Silent: c.health.Called,
		Probe: func(ctx context.Context) error {
			_, err := c.remote.Ask(ctx, http.MethodGet, c.path+"/models", nil) // a refusal is an answer, too
			return err
		},
	})
	return c
}

// Close ends what runs in the background, and closes idle connections.
func (c *LLM) Close() { c.remote.Close() }

// Skips tells whether nobody is asked because the API does not answer.
func (c *LLM) Skips() bool { return c.remote.Skips() }

// Trouble says in one line what does not work at present; nil is all well.
func (c *LLM) Trouble() []string { return c.health.Lines() }

// A LLMCall says whom a Prompt is sent to, and in whose name.
type LLMCall struct {
	Path   string      // with its query; "": that of chat completions
	Header http.Header // credentials
	Own    bool        // they are Sidenote's, so a refusal is trouble of its own
}

// A LLMUsage is what an answer used, in tokens.
type LLMUsage struct {
	Input, Output int64
	Known         bool // the API told it
}

// An LLMAnswer is what a model answered.
type LLMAnswer struct {
	Text  string
	Usage LLMUsage
}

// ErrNoCompletion is wrapped by the error of a call that is answered with something else than a
// completion.
var ErrNoCompletion = errors.New("the answer is no completion")

// Ask sends a prompt. Where the API answers that the model refuses one of its parameters, the prompt is
// sent once more without it, and later ones are sent without it from the start. The error is that of
// Remote.CallAs, or wraps ErrNoCompletion.
func (c *LLM) Ask(ctx context.Context, to LLMCall, p Prompt) (LLMAnswer, error) {
	path := to.Path
	if path == "" {
		path = c.path + "/chat/completions"
	}
	key := path + "\n" + p.request.Model
	request := p.request.without(c.refused.Of(key)...)
	body, err := c.remote.CallAs(ctx, to.Header, http.MethodPost, path, request.body())
	if refusal, ok := c.learn(key, err, &request); ok {
		request = request.without(refusal)
		body, err = c.remote.CallAs(ctx, to.Header, http.MethodPost, path, request.body())
		c.learn(key, err, &request)
	}
	if notes(err, to.Own) {
		c.health.Called(err)
	}
	if err != nil {
		return LLMAnswer{}, fmt.Errorf("%s: %w", c.use, err)
	}
	return read(body)
}

// learn remembers the parameter of a request that the error of its call refuses. ok is false if it
// refuses none that can be left out.
func (c *LLM) learn(key string, err error, r *request) (refusal Refusal, ok bool) {
	e, isStatus := errors.AsType[*StatusError](err)
	if !isStatus {
		return refusal, false
	}
	if refusal, ok = e.Refuses(r.optional()...); ok {
		c.refused.Add(key, refusal)
	}
	return refusal, ok
}

// notes tells whether the end of a call says something of the API rather than of who asked.
func notes(err error, own bool) bool {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return own || e.Status >= http.StatusInternalServerError
	}
	return !errors.Is(err, ErrDown) && !errors.Is(err, ErrBusy)
}

// read returns the text of the first choice of a completion.
func read(body []byte) (a LLMAnswer, err error) {
	var c struct {
		Choices []struct {
			Message struct {
				Content *content `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Usage *struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return a, ErrNoCompletion
	}
	if u := c.Usage; u != nil && u.Prompt > 0 && u.Completion >= 0 {
		a.Usage = LLMUsage{Input: u.Prompt, Output: u.Completion, Known: true}
	}
	if len(c.Choices) == 0 || c.Choices[0].Message.Content == nil || c.Choices[0].Message.Content.none {
		return a, fmt.Errorf("%w: it has no text", ErrNoCompletion)
	}
	a.Text = c.Choices[0].Message.Content.text
	return a, nil
}

// A content is the text of a message: a string, or the texts of a list of parts. What a model thought is a
// part of another type.
type content struct {
	text string
	none bool // no part is a text
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, &c.text)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	c.none = true
	err := json.Unmarshal(raw, &parts)
	for _, part := range parts {
		if part.Type == "text" {
			c.text, c.none = c.text+part.Text, false
		}
	}
	return err
}
