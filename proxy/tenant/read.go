package tenant

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/rewrite"
)

// TenantHeader is the header by which a trusted peer names a tenant, in lower case.
const TenantHeader = "sidenote-tenant"

// prefix begins the names of Sidenote's headers.
const prefix = "sidenote-"

// FoldsHeader tells whether name equals lower, in any letter case and with '_' for '-'.
func FoldsHeader(name []byte, lower string) bool {
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

// ReadHeaderOptions reads a request's options from its Sidenote-* headers; identified passes over
// Sidenote-Tenant, which has been judged then. The error is a *rewrite.OptionError that names header
// and value. It is returned for an unknown header, one that stands twice, one with '_' for '-', and a
// value that is not valid.
func ReadHeaderOptions(h *fasthttp.RequestHeader, identified bool) (rewrite.Options, error) {
	var (
		o    rewrite.Options
		seen uint
	)
	for name, value := range h.All() {
		if !FoldsHeader(name[:min(len(name), len(prefix))], prefix) {
			continue
		}
		if identified && FoldsHeader(name, TenantHeader) {
			continue
		}
		header := string(name)
		which, set := OptionOfHeader(header)
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
