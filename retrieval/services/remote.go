package services

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	maxBody  = 8 << 20 // of an answer, unpacked, where Options.MaxAnswer says nothing
	maxError = 4 << 10 // of an answer that is an error
	stepWait = 5 * time.Second

	// maxRetryAfter is the longest that a service is left alone because it asks for it:
	// rates are mostly limited by the minute.
	maxRetryAfter = time.Minute
)

// RemoteOptions say which service a Client calls. BaseURL and Probe are required.
type RemoteOptions struct {
	BaseURL string        // stands before the path of each call
	Key     func() string // the API key; nil or "" sends none

	// Dial opens the connections; nil: directly. TLS are its settings; nil: the system's
	// authorities.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config

	// MaxAnswer is how many bytes an answer may have, unpacked; 0: 8 MiB.
	MaxAnswer int

	// Probe asks a service that failed whether it answers again, by something that costs
	// little; its error is judged like that of a call.
	Probe func(context.Context) error
	// Silent, unless nil, is told that calls are skipped from now on because they hang.
	Silent func(error)

	Calls    int           // at a time at most; 0: MaxCalls
	Patience time.Duration // how long any call may take before it counts as hanging; 0: a second
}

// A Remote calls one service. The key goes to the service's own address and nowhere else:
// redirects are not followed.
type Remote struct {
	HTTP *http.Client // sends the calls; its Transport bounds the connections

	base    string
	key     func() string
	most    int // bytes of an answer
	breaker *breaker
	stop    context.CancelFunc // of probes
	calls   chan struct{}      // holds a token for each call under way
	waiting chan struct{}      // and for each one that waits or is under way
}

// NewRemote returns a client. Call Close when done with it.
func NewRemote(o RemoteOptions) *Remote {
	calls := cmp.Or(o.Calls, MaxCalls)
	c := &Remote{
		base: o.BaseURL, key: o.Key, most: cmp.Or(o.MaxAnswer, maxBody),
		calls: make(chan struct{}, calls), waiting: make(chan struct{}, calls-MaxCalls+MaxWaiting),
	}
	if c.key == nil {
		c.key = func() string { return "" }
	}
	c.HTTP = &http.Client{
		Transport: &http.Transport{
			DialContext:            dial(o.Dial),
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    stepWait,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			MaxConnsPerHost:        2 * calls,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.breaker = &breaker{
		ctx:   ctx,
		least: max(longFailing, o.Patience),
		probe: o.Probe,
		silent: func() {
			if o.Silent != nil {
				o.Silent(plain(context.DeadlineExceeded))
			}
		},
	}
	return c
}

// dial returns open, or what opens connections directly, within stepWait.
func dial(open func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, stepWait)
		defer cancel()
		return open(ctx, network, address)
	}
}

// Close ends the probes and closes idle connections.
func (c *Remote) Close() {
	c.breaker.close(c.stop)
	c.HTTP.CloseIdleConnections()
}

// Skips tells whether calls are skipped because the service does not answer.
func (c *Remote) Skips() bool { return c.breaker.isOpen() }

// Ask is Call without the bounds on calls and without the breaker: for what is asked
// rarely, such as the state of a service.
func (c *Remote) Ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	header := http.Header{}
	if key := c.key(); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return c.send(ctx, header, method, path, body)
}

// send sends a request with the header lines of whoever asks.
func (c *Remote) send(ctx context.Context, header http.Header, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, plain(err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Not sent: it tells the transport that a POST may be sent again where the
	// connection turns out to be closed.
	req.Header["Idempotency-Key"] = []string{}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, ended(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, statusOf(resp, header)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", ended(ctx, err))
	case len(answer) > c.most:
		return nil, fmt.Errorf("answer is larger than %d MiB", c.most>>20)
	case !json.Valid(answer):
		return nil, fmt.Errorf("answered with %s that is not JSON", kind(resp, header))
	}
	return answer, nil
}

// A StatusError is an answer other than 200.
type StatusError struct {
	Status int
	Code   string // error.code of the answer, "" for none

	// RetryAfter is for how long the service wants no other call, if it says so with a
	// 429 or 503; at most a minute.
	RetryAfter time.Duration

	body []byte // the beginning of the answer
}

// Refuses returns the parameter of the call that the answer refuses, of those whose names are given.
func (e *StatusError) Refuses(names ...string) (Refusal, bool) {
	return Read(e.Status, e.body, names...)
}

// Error tells status and code. The message of the answer stays out: it is
// somebody else's text, and may quote the key.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("answered %d", e.Status)
	switch {
	case e.Status >= 300 && e.Status < 400:
		text += " (redirects are not followed)"
	case e.Code != "":
		text += " (" + e.Code + ")"
	}
	return text
}

var statusCodes = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func statusOf(resp *http.Response, sent http.Header) error {
	e := &StatusError{Status: resp.StatusCode}
	if e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable {
		e.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return e
	}
	e.body = body
	var answer struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err == nil {
		if code, ok := answer.Error.Code.(string); ok && statusCodes.MatchString(code) && !quotesAny(code, sent) {
			e.Code = code
		}
	}
	return e
}

// quotesAny tells whether a word of an answer quotes a credential that was sent.
func quotesAny(word string, sent http.Header) bool {
	for _, values := range sent {
		for _, value := range values {
			_, secret, schemed := strings.Cut(value, " ")
			if !schemed {
				secret = value
			}
			if quotes(word, secret) {
				return true
			}
		}
	}
	return false
}

// shortQuote is how many bytes a part of a secret has that is no chance.
const shortQuote = 6

// quotes tells whether a word of an answer is a secret, a part of it, or holds it: some services
// echo what they refuse.
func quotes(word, secret string) bool {
	word, secret = strings.ToLower(word), strings.ToLower(strings.TrimSpace(secret))
	return secret != "" && (strings.Contains(word, secret) || len(word) >= shortQuote && strings.Contains(secret, word))
}

// parseRetryAfter reads a number of seconds or an HTTP date; anything else is 0.
func parseRetryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(0, time.Until(at)), maxRetryAfter)
}

// retryAfter is the RetryAfter of a StatusError, 0 of any other error.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// kind is the media type of an answer, for people.
func kind(resp *http.Response, sent http.Header) string {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || len(media) > 64 {
		return "something"
	}
	for part := range strings.SplitSeq(media, "/") {
		if quotesAny(part, sent) {
			return "something"
		}
	}
	return media
}

// ended is Plain, but for a call whose context has ended: net/http returns the cause of that, such as
// the error of a call beside it, which says nothing of the service.
func ended(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil {
		return plain(end)
	}
	return plain(err)
}

// plain returns an error of the network without addresses that are other ones each
// time, so that the same trouble is the same line.
func plain(err error) error {
	var op *net.OpError
	var wrapped *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, io.EOF):
		return errors.New("connection closed without an answer")
	case errors.As(err, &op):
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	case errors.As(err, &wrapped):
		return wrapped.Err
	}
	return err
}
