package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// KeyEnv is the environment variable with the key for an upstream that has none in the
// configuration; OpenAI's clients use the same one.
const KeyEnv = "OPENAI_API_KEY"

// An Upstream is the upstream that answers a question.
type Upstream struct {
	proxy.Upstream
	Key   string                      // sent with a question; "": none, or the configuration has one
	Reach func(context.Context) error // returns why it cannot be reached, or nil
}

// UpstreamOf returns the upstream of a policy. env looks up KeyEnv.
func UpstreamOf(cfg *config.Config, p *tenant.Policy, env func(string) (string, bool)) Upstream {
	u := Upstream{Upstream: config.ProxyUpstreams(cfg)[p.Upstream]}
	if key, _ := env(KeyEnv); u.APIKey.Reveal() == "" {
		u.Key = strings.TrimSpace(key)
	}
	return u
}

// ErrNoModel means that the model must be named.
var ErrNoModel = errors.New("say which model to ask by --model, or SIDENOTE_MODEL")

// mostNamed limits the models that are listed for a choice.
const mostNamed = 5

// Model returns the model of the upstream if it has only one.
func (u *Upstream) Model(ctx context.Context, c *Chat) (string, error) {
	names, err := c.Models(ctx)
	if len(names) == 1 {
		return names[0], nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		if unreachable := u.unreachable(ctx); unreachable != nil {
			return "", unreachable
		}
	}
	if len(names) == 0 {
		return "", ErrNoModel
	}
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], ", …"
	}
	return "", fmt.Errorf("%w; %s has %s", ErrNoModel, u.BaseURL, terminal.Clean(strings.Join(names, ", "))+more)
}

// unreachable returns nil if the upstream answers, with whatever status.
func (u *Upstream) unreachable(ctx context.Context) error {
	if err := u.Reach(ctx); err != nil {
		return fmt.Errorf("upstream %s cannot be reached: %w; is it running, and is the address right?", u.BaseURL, err)
	}
	return nil
}

// Explain says on one line why there is no answer, and what to do.
func (u *Upstream) Explain(ctx context.Context, err error) error {
	if errors.Is(err, ErrIncomplete) {
		return fmt.Errorf("upstream %s broke off its answer; ask again", u.BaseURL)
	}
	refusal, ok := errors.AsType[*ChatRefusal](err)
	if !ok {
		return err
	}
	r, says, status := &refusal.Report, u.hide(refusal.Message), refusal.Status
	lost := r.Reason == report.ReasonUpstreamConnect || r.Reason == report.ReasonConnectTimeout
	if failed := r.Stages.Failed(); failed != nil && (failed.Upstream == "" || failed.Upstream == u.Name) {
		lost = lost || failed.Outcome == report.StageConnect
		status = cmp.Or(failed.Status, status)
	}
	if lost {
		if err := u.unreachable(ctx); err != nil {
			return err
		}
	}
	switch {
	case r.Outcome == rewrite.Refused:
		return fmt.Errorf("the question is refused (%s): %s", r.Reason, says)
	case status == http.StatusUnauthorized && u.Key == "" && u.APIKey.Reveal() == "":
		return fmt.Errorf("upstream %s wants a key; set %s, or api_key of the upstream in --config: %s", u.BaseURL, KeyEnv, says)
	case status == http.StatusUnauthorized && u.Key != "":
		return fmt.Errorf("upstream %s does not take the key of %s: %s", u.BaseURL, KeyEnv, says)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("upstream %s does not take its api_key of --config: %s", u.BaseURL, says)
	case r.Outcome == report.Failed, status == http.StatusOK, r.UpstreamStatus() != status:
		return errors.New(says)
	}
	return fmt.Errorf("upstream %s answers %d %s: %s", u.BaseURL, status, http.StatusText(status), says)
}

// hide turns untrusted text into one line, without the keys sent to the upstream.
func (u *Upstream) hide(text string) string {
	for _, key := range []string{u.Key, u.APIKey.Reveal()} {
		if key != "" {
			text = strings.ReplaceAll(text, key, "(a key)")
		}
	}
	return terminal.Clean(text)
}
