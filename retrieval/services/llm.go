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
	maxLLMCalls  = 256             // concurrent
	maxLLMAnswer = 1 << 20         // bytes
)

// LLMOptions configure an LLM. BaseURL is required.
type LLMOptions struct {
	Use     string   // purpose of the calls, for messages: "planner"
	Name    string   // of the upstream, for messages
	BaseURL *url.URL // of the API; without a path, /v1 is used

	// Dial and TLS are as in RemoteOptions.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config
	// Others are tried in order if no connection to BaseURL can be made.
	Others []Base

	// Changed is called with a line when the API stops answering, and when it answers again. It
	// may be nil, and may be called concurrently.
	Changed func(line string, bad bool)
}

// A LLM is a client of one API's models. It has no key: each call brings its own.
type LLM struct {
	remote *Remote
	health Health
	use    string
	path   string // of the API, without a trailing slash

	refused Memory // refused parameters, by path and model
}

// NewLLM returns an LLM. Call Close when done with it.
func NewLLM(o LLMOptions) *LLM {
	c := &LLM{use: o.Use, path: llmPath(o.BaseURL)}
	c.health.Subject = fmt.Sprintf("%s: upstream %s at %s", o.Use, o.Name, o.BaseURL.Host)
	c.health.Changed = o.Changed
	c.remote = NewRemote(RemoteOptions{
		BaseURL: originOf(o.BaseURL), Dial: o.Dial, TLS: o.TLS, From: originOf(o.BaseURL) + c.path,
		Others:    RemoteBases(o.Others, func(u *url.URL) string { return originOf(u) + llmPath(u) }),
		MaxAnswer: maxLLMAnswer, Calls: maxLLMCalls, HangAfter: llmPatience, OnHang: c.health.Called,
		Probe: func(ctx context.Context) error {
			_, err := c.remote.Ask(ctx, http.MethodGet, c.path+"/models", nil) // a refusal is an answer, too
			return err
		},
	})
	return c
}

// llmPath returns the path of an API, without a trailing slash.
func llmPath(base *url.URL) string {
	if path := strings.TrimRight(base.EscapedPath(), "/"); path != "" {
		return path
	}
	return "/v1"
}

// Close stops the probes and closes idle connections.
func (c *LLM) Close() { c.remote.Close() }

// Skips reports whether calls are skipped because the API does not answer.
func (c *LLM) Skips() bool { return c.remote.Skips() }

// Trouble returns what does not work at present, a line each; nil if all is well.
func (c *LLM) Trouble() []string { return c.health.Lines() }

// A LLMCall says where a Prompt is sent, and with which credentials.
type LLMCall struct {
	Path   string      // with its query; "": chat completions. One that ends in /messages is of that API
	Header http.Header // credentials
	Own    bool        // they are Sidenote's, so that a refusal counts as a failure of the API
}

// A LLMUsage is the usage of an answer, in tokens.
type LLMUsage struct {
	Input, Output int64
	Known         bool // reported by the API
}

// An LLMAnswer is the answer of a model.
type LLMAnswer struct {
	Text  string
	Usage LLMUsage
}

// ErrNoCompletion is wrapped by the error of a call whose answer is not a completion.
var ErrNoCompletion = errors.New("the answer is not a chat completion")

// Ask sends a prompt. If the model refuses one of its parameters, Ask repeats the call once
// without it, and later calls omit it from the start. The error is that of Remote.CallAs, or wraps
// ErrNoCompletion.
func (c *LLM) Ask(ctx context.Context, to LLMCall, p Prompt) (LLMAnswer, error) {
	path := to.Path
	if path == "" {
		path = c.path + "/chat/completions"
	}
	key := path + "\n" + p.request.Model
	asked, form := p.request.without(c.refused.Of(key)...), (*request).body
	if route, _, _ := strings.Cut(path, "?"); strings.HasSuffix(route, messagesRoute) {
		form, to.Header = (*request).messagesBody, withMessagesVersion(to.Header)
	}
	ctx, span := c.remote.startSpan(ctx, "chat", asked.Model)
	body, err := c.remote.CallAs(ctx, to.Header, http.MethodPost, path, form(&asked))
	if refusal, ok := c.learn(key, err, &asked); ok {
		asked = asked.without(refusal)
		body, err = c.remote.CallAs(ctx, to.Header, http.MethodPost, path, form(&asked))
		c.learn(key, err, &asked)
	}
	endSpan(span, 0, err)
	if notes(err, to.Own) {
		c.health.Called(err)
	}
	if err != nil {
		return LLMAnswer{}, fmt.Errorf("%s: %w", c.use, err)
	}
	return read(body)
}

// learn remembers the parameter of a request that err says is refused. ok is false if there is
// none that can be omitted.
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

// notes reports whether the outcome of a call says something about the API rather than the caller.
func notes(err error, own bool) bool {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return own || e.Status >= http.StatusInternalServerError
	}
	return !errors.Is(err, ErrDown) && !errors.Is(err, ErrBusy)
}

// read decodes the first choice of a completion.
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
			messagesUsage
		} `json:"usage"`
		Content *content `json:"content"` // of the Messages API
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return a, ErrNoCompletion
	}
	if u := c.Usage; u != nil && u.Prompt > 0 && u.Completion >= 0 {
		a.Usage = LLMUsage{Input: u.Prompt, Output: u.Completion, Known: true}
	} else if u != nil && u.input() > 0 && u.Output >= 0 {
		a.Usage = LLMUsage{Input: u.input(), Output: u.Output, Known: true}
	}
	if c.Content != nil && !c.Content.none {
		a.Text = c.Content.text
		return a, nil
	}
	if len(c.Choices) == 0 || c.Choices[0].Message.Content == nil || c.Choices[0].Message.Content.none {
		return a, fmt.Errorf("%w: it has no text", ErrNoCompletion)
	}
	a.Text = c.Choices[0].Message.Content.text
	return a, nil
}

// A content is the text of a message: a string, or the text parts of a list. Reasoning is in parts
// of another type.
type content struct {
	text string
	none bool // no part is text
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
