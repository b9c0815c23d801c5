package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

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
	BaseURL   = value.BaseURL
	Bytes     = value.Bytes
	Count     = value.Count
	Date      = value.Date
	Digest    = value.Digest
	Priority  = value.Priority
	Threshold = value.Threshold
	Relevance = value.Relevance
	Route     = value.Route
)

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
