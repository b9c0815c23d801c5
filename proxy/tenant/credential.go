package tenant

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
)

// Credential returns the API key of a request: the bearer token in Authorization, api-key (Azure)
// or x-api-key; "" if there is none. Different keys are an *APIError, since an upstream could read
// another header than Sidenote and see another caller. So are a header that is sent twice and a
// name with '_' for '-', which some servers treat as the same header.
func Credential(h *fasthttp.RequestHeader) (string, error) {
	var key []byte
	names := [...]string{"authorization", "api-key", "x-api-key"}
	var seen [len(names)]bool
	for name, value := range h.All() {
		which := slices.IndexFunc(names[:], func(lower string) bool { return EqualHeaderName(name, lower) })
		if which < 0 {
			continue
		}
		if seen[which] || bytes.ContainsRune(name, '_') {
			return "", &APIError{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The header %s stands twice or is spelled with '_'; send your API key once.", name)}
		}
		seen[which] = true
		if which == 0 {
			if value = bearerToken(value); value == nil {
				continue // another scheme carries no API key
			}
		}
		value = bytes.TrimSpace(value)
		if key != nil && !bytes.Equal(key, value) {
			return "", &APIError{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The key in %s differs from another one in this request; send one API key.", name)}
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
