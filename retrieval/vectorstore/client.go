package vectorstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sidenote/retrieval"
)

const (
	maxBody  = 8 << 20 // of an answer, unpacked
	maxError = 4 << 10 // of an answer that is an error
	stepWait = 5 * time.Second
)

// A client sends the three requests that this package knows. The key goes to the
// API's own address and nowhere else: redirects are not followed, and proxies of
// the environment are not used.
type client struct {
	http *http.Client
	base string // ends in /v1
	path string // of the store, escaped
	key  func() string
}

func newClient(o Options) client {
	base := strings.TrimSuffix(o.BaseURL.String(), "/")
	if !strings.HasSuffix(base, "/v1") {
		base += "/v1"
	}
	c := client{base: base, path: "/vector_stores/" + url.PathEscape(o.Store), key: o.Key}
	if c.key == nil {
		c.key = func() string { return "" }
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: stepWait}).DialContext,
			TLSHandshakeTimeout:    stepWait,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			MaxConnsPerHost:        2 * maxCalls,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// search returns the answer to a search.
func (c client) search(ctx context.Context, text string, limit int, filter *retrieval.Filter) ([]byte, error) {
	body, err := json.Marshal(struct {
		Query         string            `json:"query"`
		MaxNumResults int               `json:"max_num_results"`
		Filters       *retrieval.Filter `json:"filters,omitempty"`
	}{text, limit, filter})
	if err != nil {
		return nil, fmt.Errorf("encode question: %w", err)
	}
	return c.call(ctx, http.MethodPost, c.path+"/search", body)
}

// store returns the state of the store.
func (c client) store(ctx context.Context) ([]byte, error) {
	return c.call(ctx, http.MethodGet, c.path, nil)
}

// files returns a page of the store's files after one of them; "" is the first page.
func (c client) files(ctx context.Context, after string) ([]byte, error) {
	query := url.Values{"limit": {strconv.Itoa(filesOfPage)}}
	if after != "" {
		query.Set("after", after)
	}
	return c.call(ctx, http.MethodGet, c.path+"/files?"+query.Encode(), nil)
}

func (c client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, plain(err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Not sent: it tells the transport that a search may be sent again where the
	// connection turns out to be closed.
	req.Header["Idempotency-Key"] = []string{}
	if key := c.key(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, statusOf(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", plain(err))
	case len(answer) > maxBody:
		return nil, fmt.Errorf("answer is larger than %d MiB", maxBody>>20)
	case !json.Valid(answer):
		return nil, fmt.Errorf("answered with %s that is not JSON", kind(resp))
	}
	return answer, nil
}

// A statusError is an answer other than 200.
type statusError struct {
	status int
	code   string // error.code of the answer, "" for none
}

// Error tells status and code. The message of the answer stays out: it is
// somebody else's text, and may quote the key.
func (e *statusError) Error() string {
	text := fmt.Sprintf("answered %d", e.status)
	switch {
	case e.status >= 300 && e.status < 400:
		text += " (redirects are not followed)"
	case e.code != "":
		text += " (" + e.code + ")"
	}
	return text
}

var codes = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func statusOf(resp *http.Response) error {
	e := &statusError{status: resp.StatusCode}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return e
	}
	var answer struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err == nil {
		if code, ok := answer.Error.Code.(string); ok && codes.MatchString(code) {
			e.code = code
		}
	}
	return e
}

// kind is the media type of an answer, for people.
func kind(resp *http.Response) string {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || len(media) > 64 {
		return "something"
	}
	return media
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
