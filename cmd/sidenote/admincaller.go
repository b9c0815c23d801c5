package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sidenote/proxy/admin"
)

// An adminCaller asks an admin port about knowledge bases.
type adminCaller struct {
	base  string // URL
	token string
	http  *http.Client
}

// An adminError is an answer that is none to be glad of.
type adminError struct {
	status  int
	message string
}

func (e *adminError) Error() string {
	if e.status == http.StatusUnauthorized {
		return "it wants its admin token: set SIDENOTE_ADMIN_TOKEN, or give --admin-token-file or --config"
	}
	return strings.TrimSuffix(e.message, ".")
}

// adminWait is how long one answer may take: a little longer than the port gives itself.
const adminWait = 70 * time.Second

// newAdminCaller asks the admin port that dial leads to and nothing else: no proxy of
// the environment stands between, no redirect leads away.
func newAdminCaller(address, token string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *adminCaller {
	return &adminCaller{base: "http://" + address, token: token, http: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// knowledgeURL is the path of something among bases; parts may hold any character.
func knowledgeURL(parts ...string) string {
	path := "/v1/knowledge"
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// do sends in, unless it is nil, and reads the answer into out, unless that is.
func (c *adminCaller) do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.base, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", strings.TrimPrefix(c.base, "http://"), cause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return failed(resp)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return nil
}

// failed reads an error in OpenAI's shape.
func failed(resp *http.Response) error {
	var e struct{ Error struct{ Message string } }
	err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&e)
	if err != nil || e.Error.Message == "" {
		e.Error.Message = "answers " + resp.Status
	}
	return &adminError{status: resp.StatusCode, message: e.Error.Message}
}

// readBase returns a base with the whole of its last report.
func (c *adminCaller) readBase(ctx context.Context, id string) (b admin.Base, err error) {
	return b, c.do(ctx, http.MethodGet, knowledgeURL(id)+"?report=full", nil, &b)
}
