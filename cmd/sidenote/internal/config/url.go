package config

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A baseURL is the base URL of an upstream's API: https://api.openai.com/v1.
//
// unix:/run/api.sock:/v1 is the path /v1 of a server that listens on a unix socket.
type baseURL struct {
	*url.URL
	Socket string // path of the unix socket, or ""
}

// UnmarshalText refuses URLs that requests cannot be sent to, and credentials, which would end up
// in logs. Its error does not repeat a URL with credentials.
func (b *baseURL) UnmarshalText(text []byte) error {
	if socket, ok := strings.CutPrefix(string(text), Unix); ok {
		return b.setSocket(string(text), socket)
	}
	u, err := url.Parse(string(text))
	switch {
	case mayLogin(u, err, text):
		return errors.New("holds credentials; use api_key")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%q is not a URL; write it as in https://api.openai.com/v1", text)
	}
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // a query may hold a key
	if route, base := endpoint(*u); route != "" {
		return fmt.Errorf("%q ends in %s, which requests bring themselves; write %s", shown, route, base)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return fmt.Errorf("%q has a query or fragment behind it; only scheme, host and path are used", shown)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q has no port between 1 and 65535", text)
		}
	}
	b.URL = u
	return nil
}

// mayLogin reports whether a text holds a user or password. u and err are the results of parsing
// it as a URL, which may have failed.
func mayLogin(u *url.URL, err error, text []byte) bool {
	if err != nil || u.Host == "" {
		return bytes.ContainsRune(text, '@')
	}
	return u.User != nil
}

// baseURLs are the base URLs of one upstream, in the order in which they are tried.
type baseURLs struct {
	baseURL // the first
	others  []baseURL
}

// DecodeYAML reads a URL or a list of them.
func (b *baseURLs) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if strictyaml.Shape(n) != "list" {
		d.Scalar(key, n, reflect.ValueOf(&b.baseURL).Elem(), "")
		b.others = nil
		return
	}
	var all []baseURL
	d.List(key, n, reflect.ValueOf(&all).Elem(), "")
	if all = slices.DeleteFunc(all, func(u baseURL) bool { return u.URL == nil }); len(all) > 0 { // problems were reported
		b.baseURL, b.others = all[0], all[1:]
	}
}

// all returns the URLs in order.
func (b baseURLs) all() []baseURL { return append([]baseURL{b.baseURL}, b.others...) }

// MarshalText formats the URLs as in a file, on one line.
func (b baseURLs) MarshalText() ([]byte, error) {
	if b.URL == nil || len(b.others) == 0 {
		return b.baseURL.MarshalText()
	}
	var texts []string
	for _, u := range b.all() {
		texts = append(texts, u.String())
	}
	return []byte("[" + strings.Join(texts, ", ") + "]"), nil
}

// MarshalText is the inverse of UnmarshalText.
func (b baseURL) MarshalText() ([]byte, error) {
	if b.URL == nil {
		return nil, nil
	}
	return []byte(b.String()), nil
}

// setSocket parses what follows unix: in text. Requests then have the host localhost.
func (b *baseURL) setSocket(text, socket string) error {
	socket, base, _ := strings.Cut(socket, ":")
	if err := checkSocket(socket); err != nil {
		return err
	}
	if base != "" && (base[0] != '/' || strings.ContainsAny(base, "?#")) {
		return fmt.Errorf("%q has no path behind its second colon; write it as in unix:/run/api.sock:/v1", text)
	}
	var over baseURL
	if err := over.UnmarshalText([]byte("http://localhost" + base)); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	b.URL, b.Socket = over.URL, socket
	return nil
}

// String formats the URL as UnmarshalText reads it.
func (b baseURL) String() string {
	switch {
	case b.Socket == "":
		return b.URL.String()
	case b.EscapedPath() == "":
		return Unix + b.Socket
	}
	return Unix + b.Socket + ":" + b.EscapedPath()
}

// endpoint returns the API route that a URL ends in, and the base before it; "" if it does not end
// in one.
func endpoint(u url.URL) (route, base string) {
	at := strings.TrimRight(u.Path, "/")
	for _, route := range []string{"/chat/completions", "/completions", "/responses", "/messages", "/embeddings"} {
		if cut := len(at) - len(route); cut >= 0 && strings.EqualFold(at[cut:], route) {
			return route, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: at[:cut]}).String()
		}
	}
	return "", ""
}

// A Route is the end of an API path: /chat/completions.
type Route string

// UnmarshalText refuses routes that no request can match.
func (r *Route) UnmarshalText(text []byte) error {
	s := string(text)
	if !strings.HasPrefix(s, "/") || s == "/" || path.Clean(s) != s || strings.ContainsAny(s, "*?#% \\") {
		return fmt.Errorf("%q is not a route; write it as in /chat/completions", s)
	}
	*r = Route(s)
	return nil
}
