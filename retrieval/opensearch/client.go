package opensearch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/services"
)

const (
	maxAnswer   = 64 << 20 // bytes of an answer
	maxError    = 64 << 10 // of an answer that is an error
	maxReason   = 300      // bytes of a server's reason in an error
	defaultMost = 32       // connections, if Connection.Most is 0
	dialTimeout = 5 * time.Second
	// maxRetryAfter limits how long a Retry-After delays a write.
	maxRetryAfter = time.Minute
)

// A client sends requests to the first address that accepts them.
type client struct {
	conn    engine.Connection
	http    *http.Client
	timeout time.Duration
	first   atomic.Uint32 // index of the address that worked last
}

func newClient(conn engine.Connection) *client {
	dial := conn.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	most := cmp.Or(conn.Most, defaultMost)
	return &client{conn: conn, timeout: cmp.Or(conn.Timeout, DefaultTimeout), http: &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialTimeout)
				defer cancel()
				return dial(ctx, network, address)
			},
			TLSClientConfig:        conn.TLS,
			TLSHandshakeTimeout:    dialTimeout,
			MaxConnsPerHost:        most,
			MaxIdleConnsPerHost:    most,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // unpacking costs more CPU than decoding the JSON
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call sends a request and returns the JSON of its answer. A status other than 2xx is a
// *statusError. The request must be one that may be repeated: it is sent to the next address if one
// cannot be reached.
func (c *client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	first := c.first.Load()
	var err error
	for i := range uint32(len(c.conn.URL)) {
		at := (first + i) % uint32(len(c.conn.URL))
		var answer []byte
		answer, err = c.send(ctx, c.conn.URL[at], method, path, body)
		if !unreachable(err) {
			c.first.Store(at)
			return answer, err
		}
		if ctx.Err() != nil { // it hangs: the next call starts with another address
			c.first.CompareAndSwap(first, at+1)
			break
		}
	}
	return nil, err
}

// unreachable reports whether another address may answer what this one did not.
func unreachable(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.Status == http.StatusBadGateway || status.Status == http.StatusServiceUnavailable ||
			status.Status == http.StatusGatewayTimeout
	}
	return err != nil && !errors.Is(err, errAnswer)
}

// errAnswer marks an answer that is not as it must be.
var errAnswer = errors.New("unexpected answer")

func (c *client) send(ctx context.Context, to *url.URL, method, path string, body []byte) ([]byte, error) {
	target := strings.TrimSuffix(to.Scheme+"://"+to.Host+to.EscapedPath(), "/") + path
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, services.CallError(ctx, err)
	}
	c.authorize(req)
	if body != nil {
		req.Header.Set("Content-Type", contentType(path))
	}
	// An empty value is not sent, but lets the transport repeat a POST on a connection that turns
	// out to be closed.
	req.Header["Idempotency-Key"] = []string{}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.Host, services.CallError(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return nil, statusOf(resp)
	}
	answer, err := readAll(resp)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", services.CallError(ctx, err))
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("%w: larger than %d MiB", errAnswer, maxAnswer>>20)
	}
	return answer, nil
}

func readAll(resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= maxAnswer {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	return b.Bytes(), err
}

// authorize adds the credential, which is read anew each time.
func (c *client) authorize(req *http.Request) {
	key := ""
	if c.conn.APIKey != nil {
		key = c.conn.APIKey()
	}
	switch {
	case key != "":
		req.Header.Set("Authorization", "ApiKey "+key)
	case c.conn.User != "":
		password := ""
		if c.conn.Password != nil {
			password = c.conn.Password()
		}
		req.SetBasicAuth(c.conn.User, password)
	}
}

func contentType(path string) string {
	if strings.Contains(path, "/_bulk") || strings.HasPrefix(path, "/_msearch") {
		return "application/x-ndjson"
	}
	return "application/json"
}

// A statusError is an answer with a status other than 2xx.
type statusError struct {
	Status     int
	Type       string // such as index_not_found_exception; "" if unknown
	Reason     string // for people
	RetryAfter time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("answered %d", e.Status)
	switch {
	case e.Status == http.StatusUnauthorized:
		return text + " (user, password or key refused)"
	case e.Status/100 == 3:
		return text + " (redirects are not followed)"
	case e.Type == "":
		return text
	case e.Reason == "":
		return text + " (" + e.Type + ")"
	}
	return text + " (" + e.Type + ": " + e.Reason + ")"
}

// Unwrap returns engine.ErrLogin or engine.ErrDenied for a missing permission, and engine.ErrRefused for
// a request that the server understood and does not execute.
func (e *statusError) Unwrap() error {
	switch {
	case e.Status == http.StatusBadRequest:
		return engine.ErrRefused
	case e.Status == http.StatusUnauthorized:
		return engine.ErrLogin
	case e.Status == http.StatusForbidden && !e.full():
		return engine.ErrDenied
	}
	return nil
}

// full reports whether the server refuses writes, as for want of disk space.
func (e *statusError) full() bool { return e.Type == blockedType }

const blockedType = "cluster_block_exception"

func statusOf(resp *http.Response) error {
	e := &statusError{Status: resp.StatusCode, RetryAfter: parseRetryAfter(resp.Header.Get("Retry-After"))}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return e
	}
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil {
		e.Type, e.Reason = causeOf(answer.Error)
	}
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden && !e.full() {
		e.Reason = "" // it may quote the credential
	}
	return e
}

// A cause is how the server describes an error.
type cause struct {
	Type     string  `json:"type"`
	Reason   string  `json:"reason"`
	CausedBy *cause  `json:"caused_by"`
	Root     []cause `json:"root_cause"`
}

// causeOf returns the type and the reason of an error, shortened to one line.
func causeOf(body []byte) (kind, reason string) {
	var c cause
	if len(body) == 0 || json.Unmarshal(body, &c) != nil {
		return "", ""
	}
	if c.Reason == "all shards failed" && len(c.Root) > 0 {
		c = c.Root[0]
	}
	reason = c.Reason
	for by := c.CausedBy; by != nil; by = by.CausedBy {
		reason += ": " + by.Reason
	}
	return oneLine(c.Type, 64), oneLine(reason, maxReason)
}

func oneLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

func parseRetryAfter(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// missing reports whether an error says that an index, an alias or a document does not exist.
func missing(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Status == http.StatusNotFound
}
