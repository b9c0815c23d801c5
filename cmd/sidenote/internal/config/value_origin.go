package config

import (
	"errors"
	"fmt"
	"strings"

	"sidenote/proxy/tenant"
)

// An origin is an origin of web pages: https://app.example.com, https://*.example.com, or
// moz-extension: for all of a scheme.
type origin string

// UnmarshalText refuses invalid origins, and those that any page can have.
func (o *origin) UnmarshalText(text []byte) error {
	switch s := string(text); {
	case s == "*":
		return errors.New("would let every web page read the knowledge; list the origins of yours")
	case strings.EqualFold(s, "null"):
		return errors.New("null is what any web page can send; give the page an origin, or its requests a key")
	case !tenant.ValidOrigin(s):
		return fmt.Errorf("%q is not an origin; write it as in https://app.example.com, or moz-extension: for all of an app's scheme", s)
	default:
		*o = origin(s)
		return nil
	}
}

// A host is a host name of Sidenote: sidenote.example.com, *.example.com.
type host string

// UnmarshalText refuses invalid names.
func (h *host) UnmarshalText(text []byte) error {
	s := strings.ToLower(string(text))
	if !tenant.ValidHost(s) {
		return fmt.Errorf("%q is not a name; write it without scheme and port, as in sidenote.example.com or *.example.com", text)
	}
	*h = host(s)
	return nil
}
