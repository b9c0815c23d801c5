package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"mime"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// A right is what a caller is allowed to do.
type right int

// The rights. Each includes those before it.
const (
	noRight right = iota
	readRight
	writeRight
)

// admit returns an error if the request is not allowed. It first refuses what a foreign web page
// could send through a user's browser: an unknown host name (DNS rebinding) or a foreign origin. A
// caller with a token may use any host name, as other Sidenotes do, since no page has the token.
func (h *Handler) admit(ctx *fasthttp.RequestCtx, e endpoint, found bool) error {
	if found && e.signed {
		return nil
	}
	host, has := string(ctx.Host()), h.rightOf(ctx)
	if has == noRight && !h.knownHost(host) {
		return Refuse(fasthttp.StatusMisdirectedRequest, "unknown_host", "The admin port is not known as %q; call it localhost or by its IP address, or send the admin token as a bearer token.", host)
	}
	// A page of this machine that sends a token is a program of the machine's owner; it may read.
	trusted := !e.write && has != noRight
	if origin := string(ctx.Request.Header.Peek("Origin")); origin != "" && !h.ownOrigin(origin, host) && !(trusted && ofThisMachine(origin)) {
		return Refuse(fasthttp.StatusForbidden, "foreign_origin", "Pages of %q may not call the admin port.", origin)
	}
	switch {
	case !found || e.public:
		return nil
	case !mayRead(h, has):
		return &tenant.APIError{Reason: report.ReasonKey, Message: "The admin token is missing or wrong; send it in the header Authorization as a bearer token."}
	case e.write:
		return h.admitWrite(ctx, e, has)
	}
	return nil
}

// mayRead reports whether a caller may read: if there are no tokens, everybody may.
func mayRead(h *Handler, has right) bool {
	return has != noRight || h.Token.Reveal()+h.ReadToken.Reveal() == ""
}

// digests returns the digests of the tokens that allow reading, and of those that allow writing.
func (h *Handler) digests() (read, write [][sha256.Size]byte) {
	if token, _ := h.writeToken(); token != "" { // none if it cannot be read
		write = append(write, sha256.Sum256([]byte(token)))
	}
	if token := h.ReadToken.Reveal(); token != "" {
		read = append(read, sha256.Sum256([]byte(token)))
	}
	return slices.Concat(write, read), write
}

// admitWrite returns an error if a caller who may read may not write.
func (h *Handler) admitWrite(ctx *fasthttp.RequestCtx, e endpoint, has right) error {
	_, err := h.writeToken()
	switch {
	case err != nil:
		return Refuse(fasthttp.StatusForbidden, "no_admin_token", "There is no admin token to write with: %v. Set SIDENOTE_ADMIN_TOKEN or admin.token.", err)
	case has == readRight:
		return Refuse(fasthttp.StatusForbidden, "read_only_token", "This token is for reading only; a write needs the admin token.")
	case has != writeRight:
		return &tenant.APIError{Reason: report.ReasonKey, Message: "A write needs the admin token; send it in the header Authorization as a bearer token. " +
			"It stands in the file admin-token of the state folder."}
	case !isJSON(ctx) && !(e.form && isForm(ctx)):
		return Refuse(fasthttp.StatusUnsupportedMediaType, "unsupported_media_type", "The body of a write is application/json, not %q; say so in the header Content-Type.", ctx.Request.Header.ContentType())
	}
	return nil
}

// writeToken returns the token that writes must send, or why there is none.
func (h *Handler) writeToken() (string, error) {
	switch token := h.Token.Reveal(); {
	case token != "":
		return token, nil
	case h.StateToken == nil:
		return "", errors.New("there is no state folder")
	}
	return h.StateToken()
}

// rightOf returns the right that the bearer token of a request grants.
func (h *Handler) rightOf(ctx *fasthttp.RequestCtx) right {
	const scheme = "bearer "
	got := ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)
	if len(got) < len(scheme) || !bytes.EqualFold(got[:len(scheme)], []byte(scheme)) {
		return noRight
	}
	got = bytes.TrimSpace(got[len(scheme):])
	token, _ := h.writeToken() // without one nobody may write, and admitWrite says why
	switch {
	case sameSecret(token, got):
		return writeRight
	case sameSecret(h.ReadToken.Reveal(), got):
		return readRight
	}
	return noRight
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
