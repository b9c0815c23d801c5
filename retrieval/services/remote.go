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

	"sidenote/retrieval/tracing"
)

const (
	maxBody  = 8 << 20 // of an unpacked answer, if RemoteOptions.MaxAnswer is 0
	maxError = 4 << 10 // of an error answer
	stepWait = 5 * time.Second

	// maxRetryAfter limits how long Retry-After can pause calls: most rate limits are per minute.
	maxRetryAfter = time.Minute
)

// RemoteOptions configure a Remote. BaseURL and Probe are required.
type RemoteOptions struct {
	BaseURL string        // prefix of the path of each call
	Key     func() string // the API key; nil or "" sends none

	// Dial opens connections; nil: net.Dialer. TLS is the TLS configuration; nil: the system's
	// root certificates.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config

	// Others are tried in order if no connection to the first can be made. Their prefix replaces From,
	// with which the URL of each call begins.
	Others []RemoteBase
	From   string

	// MaxAnswer is the maximum size of an unpacked answer in bytes; 0: 8 MiB.
	MaxAnswer int

	// Probe checks cheaply whether a failed service answers again; its error is judged like that
	// of a call.
	Probe func(context.Context) error
	// OnHang, unless nil, is called when calls are skipped from now on because they hang.
	OnHang func(error)

	Calls     int           // maximum number of concurrent calls; 0: MaxCalls
	HangAfter time.Duration // time after which any call counts as hanging; 0: a second
}

// A RemoteBase is another base URL of a service.
type RemoteBase struct {
	Prefix string // of the URLs of its calls
	Base
}

// A Remote calls one service. The key is sent to the service's own addresses only: redirects are not
// followed.
type Remote struct {
	HTTP *http.Client // sends the calls; its Transport limits the connections
	*Guard

	base string
	key  func() string
	most int // maximum bytes of an answer
}

// NewRemote returns a Remote. Call Close when done with it.
func NewRemote(o RemoteOptions) *Remote {
	calls := cmp.Or(o.Calls, MaxCalls)
	c := &Remote{
		base: o.BaseURL, key: o.Key, most: cmp.Or(o.MaxAnswer, maxBody),
		Guard: NewGuard(GuardOptions{Probe: o.Probe, OnHang: o.OnHang, HangAfter: o.HangAfter, Calls: calls}),
	}
	if c.key == nil {
		c.key = func() string { return "" }
	}
	bases := &baseTransport{from: o.From}
	for _, b := range append([]RemoteBase{{o.From, Base{Dial: o.Dial, TLS: o.TLS}}}, o.Others...) {
		bases.bases = append(bases.bases, &remoteBase{prefix: b.Prefix, http: newTransport(b.Base, calls)})
	}
	c.HTTP = &http.Client{
		Transport:     bases,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// newTransport returns the transport to a base URL.
func newTransport(b Base, calls int) *http.Transport {
	return &http.Transport{
		DialContext:            dial(b.Dial),
		TLSClientConfig:        b.TLS,
		TLSHandshakeTimeout:    stepWait,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		MaxConnsPerHost:        2 * calls,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// dial returns open, or a direct dialer if it is nil, with a timeout of stepWait.
func dial(open func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, stepWait)
		defer cancel()
		conn, err := open(ctx, network, address)
		if err != nil {
			return nil, &unreached{err}
		}
		return conn, nil
	}
}

// Close stops the probes and closes idle connections.
func (c *Remote) Close() {
	c.Guard.Close()
	c.HTTP.CloseIdleConnections()
}

// Ask is Call without the call limits and the breaker, for rare requests such as the state of a
// service.
func (c *Remote) Ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	header := http.Header{}
	if key := c.key(); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return c.send(ctx, header, method, path, body)
}

// send sends a request with the given header.
func (c *Remote) send(ctx context.Context, header http.Header, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, plain(err)
	}
	maps.Copy(req.Header, header)
	tracing.Inject(ctx, req.Header)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// An empty value is not sent, but lets the transport retry a POST on a connection that turns
	// out to be closed.
	req.Header["Idempotency-Key"] = []string{}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, CallError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, statusOf(resp, header)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", CallError(ctx, err))
	case len(answer) > c.most:
		return nil, fmt.Errorf("answer is larger than %d MiB", c.most>>20)
	case !json.Valid(answer):
		return nil, fmt.Errorf("answered with %s that is not JSON", kind(resp, header))
	}
	return answer, nil
}

// A StatusError is an answer with a status other than 200.
type StatusError struct {
	Status int
	Code   string // error.code of the answer, "" for none

	// RetryAfter is the Retry-After of a 429 or 503, at most a minute; 0 if there is none.
	RetryAfter time.Duration

	body []byte // beginning of the body
}

// Refuses returns the parameter, one of names, that the answer refuses.
func (e *StatusError) Refuses(names ...string) (Refusal, bool) {
	return RefusedParam(e.Status, e.body, names...)
}

// Error returns status and code. The message of the answer is left out: it is untrusted and may
// quote the key.
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

// quotesAny reports whether a word of an answer quotes a credential that was sent.
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

// shortQuote is the length from which a matching part of a secret is no coincidence.
const shortQuote = 6

// quotes reports whether word is secret, a part of it, or contains it: some services echo what
// they refuse.
func quotes(word, secret string) bool {
	word, secret = strings.ToLower(word), strings.ToLower(strings.TrimSpace(secret))
	return secret != "" && (strings.Contains(word, secret) || len(word) >= shortQuote && strings.Contains(secret, word))
}

// parseRetryAfter parses a number of seconds or an HTTP date; anything else is 0.
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

// retryAfter returns the RetryAfter of a StatusError, 0 for any other error.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// kind returns the media type of an answer for an error message.
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

// CallError returns the error of a call without varying addresses, so that the same problem always gives
// the same line. A call whose context has ended returns the context's error: net/http returns the cause,
// such as the error of a parallel call, which says nothing about this service.
func CallError(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil {
		return plain(end)
	}
	return plain(err)
}

// plain removes varying addresses from a network error, so that the same problem always gives the
// same line.
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
