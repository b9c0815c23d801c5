package value

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// A BaseURL is where an upstream's API begins: https://api.openai.com/v1.
type BaseURL struct{ *url.URL }

// UnmarshalText refuses what no request could be sent to, and credentials,
// which would end up in logs. Its error does not repeat a URL with credentials.
func (b *BaseURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	switch {
	case err == nil && u.User != nil:
		return errors.New("holds credentials; use api_key")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%q is not a URL; write it as in https://api.openai.com/v1", text)
	}
	if route, base := endpoint(*u); route != "" {
		return fmt.Errorf("%q ends in %s, which requests bring themselves; write %s", text, route, base)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return fmt.Errorf("%q has a query or fragment; only scheme, host and path are used", text)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q has no port between 1 and 65535", text)
		}
	}
	b.URL = u
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (b BaseURL) MarshalText() ([]byte, error) {
	if b.URL == nil {
		return nil, nil
	}
	return []byte(b.String()), nil
}

// endpoint returns the route that a URL ends in and the base that it is of; "" where
// it is a base itself.
func endpoint(u url.URL) (route, base string) {
	at := strings.TrimRight(u.Path, "/")
	for _, route := range []string{"/chat/completions", "/completions", "/responses", "/embeddings"} {
		if cut := len(at) - len(route); cut >= 0 && strings.EqualFold(at[cut:], route) {
			return route, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: at[:cut]}).String()
		}
	}
	return "", ""
}

// A Route is the end of an API path: /chat/completions.
type Route string

// UnmarshalText refuses what no request could match.
func (r *Route) UnmarshalText(text []byte) error {
	s := string(text)
	if !strings.HasPrefix(s, "/") || s == "/" || path.Clean(s) != s || strings.ContainsAny(s, "*?#% \\") {
		return fmt.Errorf("%q is not a route; write it as in /chat/completions", s)
	}
	*r = Route(s)
	return nil
}
