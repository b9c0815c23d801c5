package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// admit returns an error if the request is not allowed. It first refuses what a foreign web page
// could send through a user's browser: an unknown host name (DNS rebinding) or a foreign origin. A
// caller with a token may use any host name, as other Sidenotes do, since no page has the token.
func (h *Handler) admit(ctx *fasthttp.RequestCtx, e endpoint, found bool, by *caller) error {
	needs := e.need()
	if found && needs == needSignature {
		return nil
	}
	host := string(ctx.Host())
	if by.Scope == "" && !h.knownHost(host) {
		return Refuse(fasthttp.StatusMisdirectedRequest, "unknown_host", "The admin port is not known as %q; call it localhost or by its IP address, or send the admin token as a bearer token.", host)
	}
	// A page of this machine that sends a token is a program of the machine's owner; it may read.
	trusted := !(found && needs.changes()) && by.Scope != ""
	if origin := string(ctx.Request.Header.Peek("Origin")); origin != "" && !h.ownOrigin(origin, host) && !(trusted && ofThisMachine(origin)) {
		return Refuse(fasthttp.StatusForbidden, "foreign_origin", "Pages of %q may not call the admin port.", origin)
	}
	switch {
	case !found || needs == needNothing:
		return nil
	case by.Scope == "" && !h.open():
		return unknownToken(by)
	case e.handle == nil: // the path takes other methods
		return nil
	case needs.changes():
		return h.admitChange(ctx, e, needs, by)
	case by.Scope != "" && !by.Scope.meets(needs):
		return insufficient(by)
	}
	return nil
}

// unknownToken returns the error for a caller without a valid token.
func unknownToken(by *caller) error {
	message := "The admin token is missing or wrong; send it in the header Authorization as a bearer token."
	if by.late {
		message = fmt.Sprintf("The token %q has expired: its last day was %s.", by.Name, by.Expires.Add(-time.Second).UTC().Format(time.DateOnly))
	}
	return &tenant.APIError{Reason: report.ReasonKey, Message: message}
}

// Codes of refusals of tokens that are known.
const (
	codeScope    = "insufficient_scope"
	codeReadOnly = "read_only_token"
)

// insufficient returns the error for a caller whose token does not allow a request.
func insufficient(by *caller) error {
	return Refuse(fasthttp.StatusForbidden, codeScope, "The token %q has the scope %s, which does not allow this.", by.Name, by.Scope)
}

// admitChange returns an error if a caller may not make a change.
func (h *Handler) admitChange(ctx *fasthttp.RequestCtx, e endpoint, needs need, by *caller) error {
	switch {
	case by.Scope == scopeReadToken:
		return Refuse(fasthttp.StatusForbidden, codeReadOnly, "This token is for reading only; a write needs the admin token.")
	case by.Scope == "" && !h.hasAdmin():
		if _, err := h.stateToken(); err != nil {
			return Refuse(fasthttp.StatusForbidden, "no_admin_token", "There is no admin token to write with: %v. Set SIDENOTE_ADMIN_TOKEN or admin.token.", err)
		}
		return &tenant.APIError{Reason: report.ReasonKey, Message: "A write needs the admin token; send it in the header Authorization as a bearer token. " +
			"It stands in the file admin-token of the state folder."}
	case !by.Scope.meets(needs):
		return insufficient(by)
	case !isJSON(ctx) && !(e.form && isForm(ctx)):
		return Refuse(fasthttp.StatusUnsupportedMediaType, "unsupported_media_type", "The body of a write is application/json, not %q; say so in the header Content-Type.", ctx.Request.Header.ContentType())
	}
	return nil
}

// sameSecret compares digests, so that its timing reveals nothing about the token, not even its
// length. If want is "", nothing equals it.
func sameSecret(want string, got []byte) bool {
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256(got)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}

// isJSON reports whether the body of a request is declared as JSON, which pages of other origins
// cannot send without a preflight. A request without a body needs no type.
func isJSON(ctx *fasthttp.RequestCtx) bool {
	declared := string(ctx.Request.Header.ContentType())
	if declared == "" && ctx.Request.Header.ContentLength() == 0 {
		return true
	}
	media, _, err := mime.ParseMediaType(declared)
	return err == nil && media == "application/json"
}

// isForm reports whether the body of a request is declared as a form with files. Pages of other
// origins can send one, but not with a token.
func isForm(ctx *fasthttp.RequestCtx) bool {
	media, _, err := mime.ParseMediaType(string(ctx.Request.Header.ContentType()))
	return err == nil && media == "multipart/form-data"
}

// knownHost reports whether this listener may be called by host, a name or an address with or
// without a port. Any address is allowed: DNS rebinding needs a name.
func (h *Handler) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(h.Hosts, host)
}

// ownOrigin reports whether origin is that of this listener, which was called as host, or has a
// configured name.
func (h *Handler) ownOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && (strings.EqualFold(u.Host, host) || slices.Contains(h.Hosts, strings.ToLower(u.Hostname())))
}

// ofThisMachine reports whether origin is that of a server on this machine.
func ofThisMachine(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	name := strings.ToLower(u.Hostname())
	return err == nil && addr.IsLoopback() || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
