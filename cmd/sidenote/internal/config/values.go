package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"sidenote/cmd/sidenote/internal/config/value"
	"sidenote/proxy"
)

// The scalar values of a configuration. Each reads the text that stands in the
// file, so quoting never matters, and says in its error what it wants instead.

// Off is the Address of a listener that is turned off.
const Off = "off"

// An Address is host:port of a listener, or Off. An empty host is every
// interface, port 0 a free one.
type Address string

// UnmarshalText reads host:port or "off".
func (a *Address) UnmarshalText(text []byte) error {
	s := string(text)
	if s != Off {
		_, port, err := net.SplitHostPort(s)
		if err != nil {
			return fmt.Errorf("%q is not an address; write host:port, as in 127.0.0.1:8080", s)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("%q has no port between 0 and 65535", s)
		}
	}
	*a = Address(s)
	return nil
}

// Loopback tells whether only this machine can reach the address.
func (a Address) Loopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	return a == Off || err == nil && loopback(host)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// A Name names a policy, tenant, base or upstream: [a-z0-9_-]{1,64}.
type Name string

// UnmarshalText refuses what is not a name.
func (n *Name) UnmarshalText(text []byte) error {
	if !validName(string(text)) {
		return fmt.Errorf("%q is not a name; use 1 to 64 of a-z 0-9 _ -", text)
	}
	*n = Name(text)
	return nil
}

// validName is never changed.
var validName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString

// The values that package value has.
type (
	Bytes     = value.Bytes
	Count     = value.Count
	Priority  = value.Priority
	Threshold = value.Threshold
	Relevance = value.Relevance
)

// A Digest is the SHA-256 of an API key, in hex.
type Digest [32]byte

// UnmarshalText reads 64 hex digits. Its error does not repeat the value:
// somebody may have put the key itself there.
func (d *Digest) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(d[:], text[:min(len(text), 64)]); err != nil || n != len(d) || len(text) != 64 {
		return errors.New("is not a SHA-256 in 64 hex digits; `sidenote key hash` makes one of a key")
	}
	return nil
}

// Shown is the beginning of the digest: enough to tell keys from each other.
func (d Digest) Shown() string { return hex.EncodeToString(d[:4]) }

// A Date is the first or last day (UTC) on which something is valid.
type Date struct{ time.Time }

// UnmarshalText reads 2027-01-31.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil || t.Year() < 2000 {
		return fmt.Errorf("%q is not a date; write it as in 2027-01-31", text)
	}
	d.Time = t
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Date) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return d.AppendFormat(nil, time.DateOnly), nil
}

// End is the moment from which on it is over; zero when there is no date.
func (d Date) End() time.Time {
	if d.IsZero() {
		return time.Time{}
	}
	return d.AddDate(0, 0, 1)
}

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

// A Glob is a doublestar pattern on slash-separated paths.
type Glob string

// UnmarshalText refuses what is not a pattern.
func (g *Glob) UnmarshalText(text []byte) error {
	if !doublestar.ValidatePattern(string(text)) {
		return fmt.Errorf("%q is not a pattern; write it as in **/*.md", text)
	}
	*g = Glob(text)
	return nil
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

// An Origin is that of web pages: https://app.example.com, https://*.example.com, or
// moz-extension: for all of a scheme.
type Origin string

// UnmarshalText refuses what is no origin, and what would be the origin of every page.
func (o *Origin) UnmarshalText(text []byte) error {
	switch s := string(text); {
	case s == "*":
		return errors.New("would let every web page read the knowledge; list the origins of yours")
	case strings.EqualFold(s, "null"):
		return errors.New("null is what any web page can send; give the page an origin, or its requests a key")
	case !proxy.ValidOrigin(s):
		return fmt.Errorf("%q is not an origin; write it as in https://app.example.com, or moz-extension: for all of an app's scheme", s)
	default:
		*o = Origin(s)
		return nil
	}
}

// A Host is a name by which Sidenote is called: sidenote.example.com, *.example.com.
type Host string

// UnmarshalText refuses what is no name.
func (h *Host) UnmarshalText(text []byte) error {
	s := strings.ToLower(string(text))
	if !proxy.ValidHost(s) {
		return fmt.Errorf("%q is not a name; write it without scheme and port, as in sidenote.example.com or *.example.com", text)
	}
	*h = Host(s)
	return nil
}
