package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
)

// An Admin is a client of one admin port.
type Admin struct {
	base  string // URL
	token string
	http  *http.Client
	shown *Certificate // for a port that requests one
}

// answerWait limits one request; it is a little longer than the port's own limit.
const answerWait = 70 * time.Second

// forgetWait is answerWait for Forget, which writes the whole database.
const forgetWait = 11 * time.Minute

// NewAdmin returns a client of the admin port that dial connects to, including TLS where needed;
// requests use host. It uses no proxy of the environment and follows no redirect.
func NewAdmin(host, token string, dial func(context.Context) (net.Conn, error)) *Admin {
	connect := func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	return &Admin{base: "http://" + host, token: token, http: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: connect},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// AdminAt returns a client of the admin port at a place in the form of serving.LocalURL. With TLS
// it trusts only the certificate in the file trusted, which is at key of the configuration; nothing
// else authenticates the port. shown is presented if the port requests a certificate.
func AdminAt(place, token, trusted, key string, shown *Certificate) (*Admin, error) {
	at := parse(place)
	var settings *tls.Config
	if at.secure {
		text, err := os.ReadFile(trusted)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if settings, err = shown.Settings(); err != nil {
			return nil, err
		}
		OnlyTrust(settings, text, key)
	}
	c := NewAdmin(at.host(), token, func(ctx context.Context) (net.Conn, error) { return at.dial(ctx, settings) })
	c.shown = shown
	return c, nil
}

// KnowledgePath returns the path of a resource of a base; parts may contain any characters.
func KnowledgePath(parts ...string) string {
	path := "/v1/knowledge"
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// Do sends in as JSON, unless it is nil, and decodes the response into out, unless that is nil.
func (c *Admin) Do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return c.do(ctx, method, path, in, out)
}

func (c *Admin) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	media := ""
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body, media = bytes.NewReader(text), "application/json"
	}
	return c.send(ctx, method, path, media, body, out)
}

// PutFile writes the documents of a file to a base; title is "" to take it from the file.
func (c *Admin) PutFile(ctx context.Context, base, name, title string, raw []byte) (w admin.WrittenFile, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write(raw)
	}
	if err == nil && title != "" {
		err = form.WriteField("name", title)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return w, fmt.Errorf("encode request: %w", err)
	}
	var answer struct{ Data []admin.WrittenFile }
	if err := c.send(ctx, http.MethodPost, KnowledgePath(base, "documents"), form.FormDataContentType(), &body, &answer); err != nil {
		return w, err
	}
	if len(answer.Data) != 1 {
		return w, fmt.Errorf("the answer of %s tells of %d files, not of one", c.base, len(answer.Data))
	}
	return answer.Data[0], nil
}

// send sends a body of a media type, "" for none, and decodes the response into out, unless that is
// nil.
func (c *Admin) send(ctx context.Context, method, path, media string, body io.Reader, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.base, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", strings.TrimPrefix(c.base, "http://"), c.shown.Explain(terminal.Cause(err), flags))
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

// failed returns the error of a response with a status of 300 or more: its message, in OpenAI's
// format, or how to give a missing token.
func failed(resp *http.Response) error {
	if resp.StatusCode == http.StatusUnauthorized {
		return errors.New("it wants its admin token: set SIDENOTE_ADMIN_TOKEN, or give --admin-token-file or --config")
	}
	var e struct{ Error struct{ Message string } }
	err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&e)
	if err != nil || e.Error.Message == "" {
		return errors.New("answers " + resp.Status)
	}
	return &AdminRefused{resp.StatusCode, strings.TrimSuffix(e.Error.Message, ".")}
}

// An AdminRefused is the error of a response that says why the request was refused.
type AdminRefused struct {
	Status  int // HTTP status
	Message string
}

func (r *AdminRefused) Error() string { return r.Message }

// Base returns a base with the full report of its last ingest.
func (c *Admin) Base(ctx context.Context, id string) (b explain.Base, err error) {
	return b, c.Do(ctx, http.MethodGet, KnowledgePath(id)+"?report=full", nil, &b)
}

// Forget removes documents of a base with all that is left of them.
func (c *Admin) Forget(ctx context.Context, base string, documents []string) (done admin.Forgotten, err error) {
	ctx, cancel := context.WithTimeout(ctx, forgetWait)
	defer cancel()
	return done, c.do(ctx, http.MethodPost, KnowledgePath(base, "forget"), map[string][]string{"documents": documents}, &done)
}

// List fetches all pages of a list, ordered by id.
func List[T any](ctx context.Context, c *Admin, path string) ([]T, error) {
	out, first := []T{}, "?"
	if strings.Contains(path, "?") {
		first = "&"
	}
	for query := "order=asc&limit=100"; ; {
		var p admin.List[T]
		if err := c.Do(ctx, http.MethodGet, path+first+query, nil, &p); err != nil {
			return nil, err
		}
		out = append(out, p.Data...)
		if !p.HasMore || p.LastID == nil {
			return out, nil
		}
		query = "order=asc&limit=100&after=" + url.QueryEscape(*p.LastID)
	}
}
