package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/headeroptions"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// ownPrefix begins the names of Sidenote's headers.
const ownPrefix = "sidenote-"

// Credential returns the API key that a request carries: Authorization's bearer
// token, api-key (Azure) or x-api-key; "" if there is none. It returns an *Error for
// keys that differ, as an upstream that reads another header than we do would see
// another caller. It also returns one for a header that stands twice and for a name
// with '_' for '-', which some servers take for the same header.
func Credential(h *fasthttp.RequestHeader) (string, error) {
	var key []byte
	names := [...]string{"authorization", "api-key", "x-api-key"}
	var seen [len(names)]bool
	for name, value := range h.All() {
		which := slices.IndexFunc(names[:], func(lower string) bool { return foldsTo(name, lower) })
		if which < 0 {
			continue
		}
		if seen[which] || bytes.ContainsRune(name, '_') {
			return "", &Error{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The header %s stands twice or is spelled with '_'; send your API key once.", name)}
		}
		seen[which] = true
		if which == 0 {
			if value = bearerToken(value); value == nil {
				continue // another scheme carries no API key
			}
		}
		value = bytes.TrimSpace(value)
		if key != nil && !bytes.Equal(key, value) {
			return "", &Error{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The key in %s differs from another one in this request; send one API key.", name)}
		}
		key = value
	}
	return string(key), nil
}

// bearerToken returns nil if the scheme is not Bearer.
func bearerToken(value []byte) []byte {
	scheme, token, _ := bytes.Cut(value, []byte(" "))
	if !bytes.EqualFold(scheme, []byte("bearer")) {
		return nil
	}
	return token
}

// foldsTo tells whether name equals lower, in any letter case and with '_' for '-'.
func foldsTo(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c == '_' {
			c = '-'
		}
		if c|0x20 != lower[i] { // '-' has the bit 0x20, so it stays
			return false
		}
	}
	return true
}

// HeaderOptions reads a request's options from its Sidenote-* headers. The error is a
// *rewrite.OptionError that names header and value. It is returned for an unknown
// header, one that stands twice, one with '_' for '-', and a value that is not valid.
func HeaderOptions(h *fasthttp.RequestHeader) (rewrite.Options, error) {
	return headerOptions(h, false)
}

// headerOptions is HeaderOptions; identified passes over Sidenote-Tenant, which has been
// judged then.
func headerOptions(h *fasthttp.RequestHeader, identified bool) (rewrite.Options, error) {
	var (
		o    rewrite.Options
		seen uint
	)
	for name, value := range h.All() {
		if !foldsTo(name[:min(len(name), len(ownPrefix))], ownPrefix) {
			continue
		}
		if identified && foldsTo(name, tenantHeaderName) {
			continue
		}
		header := string(name)
		which, set := headeroptions.OfHeader(header)
		switch {
		case set == nil:
			return o, &rewrite.OptionError{Param: header, Reason: "is no option; use Sidenote-Mode, Sidenote-Knowledge, Sidenote-Context-Tokens or Sidenote-Query"}
		case seen&which != 0:
			return o, &rewrite.OptionError{Param: header, Reason: "stands twice"}
		case len(bytes.TrimSpace(value)) == 0:
			return o, &rewrite.OptionError{Param: header, Reason: "is empty"}
		}
		seen |= which
		if err := set(&o, strings.TrimSpace(string(value))); err != nil {
			return o, &rewrite.OptionError{Param: header, Reason: err.Error()}
		}
	}
	return o, nil
}
