package tenant

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/rewrite"
)

// TenantHeader is the header in which a trusted peer names a tenant, in lower case.
const TenantHeader = "sidenote-tenant"

// prefix begins the names of Sidenote's headers.
const prefix = "sidenote-"

// EqualHeaderName reports whether name equals lower, ignoring letter case and treating '_' as '-'.
func EqualHeaderName(name []byte, lower string) bool {
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

// ReadHeaderOptions reads the request options from the Sidenote-* headers. If identified is set,
// it skips Sidenote-Tenant, which has been evaluated already. The error is a *rewrite.OptionError
// that names the header: unknown, sent twice, spelled with '_' for '-', or with an invalid value.
func ReadHeaderOptions(h *fasthttp.RequestHeader, identified bool) (rewrite.Options, error) {
	var (
		o    rewrite.Options
		seen uint
	)
	for name, value := range h.All() {
		if !EqualHeaderName(name[:min(len(name), len(prefix))], prefix) {
			continue
		}
		if identified && EqualHeaderName(name, TenantHeader) {
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
