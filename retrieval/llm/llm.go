// Package llm asks small models that help a search, by the chat completions that OpenAI's API has.
// What it sends and what comes back is text of users and models: both are quoted, bounded and never
// obeyed.
package llm

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

	"sidenote/retrieval/badparam"
	"sidenote/retrieval/remote"
)

const (
	patience  = 5 * time.Second // models take a second or two
	maxCalls  = 256             // at a time
	maxAnswer = 1 << 20         // bytes
)

// Options say which API a Client asks. BaseURL is required.
type Options struct {
	Use     string   // what its models are asked for, for people: "planner"
	Name    string   // of the upstream, likewise
	BaseURL *url.URL // where the API begins; one without a path has /v1

	// Dial and TLS are those of remote.Options.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config

	// Changed is called when it stops answering, with a line that says so, and when it answers
	// again. It may be nil, and may be called concurrently.
	Changed func(line string, bad bool)
}

// A Client asks the models of one API. It has no key: each call brings its own.
type Client struct {
	remote *remote.Client
	health remote.Health
	use    string
	path   string // of the API, without a slash at its end

	refused badparam.Memory // by path and model
}

// New returns a client. Call Close when done with it.
func New(o Options) *Client {
	c := &Client{use: o.Use, path: strings.TrimRight(o.BaseURL.EscapedPath(), "/")}
	if c.path == "" {
		c.path = "/v1"
	}
	c.health.Subject = fmt.Sprintf("%s: upstream %s at %s", o.Use, o.Name, o.BaseURL.Host)
	c.health.Changed = o.Changed
	c.remote = remote.New(remote.Options{
		BaseURL: o.BaseURL.Scheme + "://" + o.BaseURL.Host, Dial: o.Dial, TLS: o.TLS,
		MaxAnswer: maxAnswer, Calls: maxCalls, Patience: patience, Silent: c.health.Called,
		Probe: func(ctx context.Context) error {
			_, err := c.remote.Ask(ctx, http.MethodGet, c.path+"/models", nil) // a refusal is an answer, too
			return err
		},
	})
	return c
}

// Close ends what runs in the background, and closes idle connections.
func (c *Client) Close() { c.remote.Close() }

// Skips tells whether nobody is asked because the API does not answer.
func (c *Client) Skips() bool { return c.remote.Skips() }

// Trouble says in one line what does not work at present; nil is all well.
func (c *Client) Trouble() []string { return c.health.Lines() }

// A Call says whom a Prompt is sent to, and in whose name.
type Call struct {
	Path   string      // with its query; "": that of chat completions
	Header http.Header // credentials
	Own    bool        // they are Sidenote's, so a refusal is trouble of its own
}

// A Usage is what an answer used, in tokens.
type Usage struct {
	Input, Output int64
	Known         bool // the API told it
}

// An Answer is what a model answered.
type Answer struct {
	Text  string
	Usage Usage
}

// ErrNoCompletion is wrapped by the error of a call that is answered with something else than a
// completion.
var ErrNoCompletion = errors.New("the answer is no completion")

// Ask sends a prompt. Where the API answers that the model refuses one of its parameters, the prompt is
// sent once more without it, and later ones are sent without it from the start. The error is that of
// remote.Client.CallAs, or wraps ErrNoCompletion.
func (c *Client) Ask(ctx context.Context, to Call, p Prompt) (Answer, error) {
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
		return Answer{}, fmt.Errorf("%s: %w", c.use, err)
	}
	return read(body)
}

// learn remembers the parameter of a request that the error of its call refuses. ok is false if it
// refuses none that can be left out.
func (c *Client) learn(key string, err error, r *request) (refusal badparam.Refusal, ok bool) {
	e, isStatus := errors.AsType[*remote.StatusError](err)
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
	if e, ok := errors.AsType[*remote.StatusError](err); ok {
		return own || e.Status >= http.StatusInternalServerError
	}
	return !errors.Is(err, remote.ErrDown) && !errors.Is(err, remote.ErrBusy)
}

// read returns the text of the first choice of a completion.
func read(body []byte) (a Answer, err error) {
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
		a.Usage = Usage{Input: u.Prompt, Output: u.Completion, Known: true}
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
