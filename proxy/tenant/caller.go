package tenant

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// Reasons to refuse a caller besides those about tokens. They are only logged.
const (
	deniedUnsent    TokenDenial = "no-credential"
	deniedUnknown   TokenDenial = "unknown-key"
	deniedEarly     TokenDenial = "key-not-yet-valid"
	deniedExpired   TokenDenial = "key-expired"
	deniedUntrusted TokenDenial = "untrusted-peer"    // sent Sidenote-Tenant
	deniedHeader    TokenDenial = "bad-tenant-header" // Sidenote-Tenant is empty, sent twice, or spelled with "_" for "-"
	deniedNobody    TokenDenial = "unknown-tenant"    // named in Sidenote-Tenant
	deniedTwo       TokenDenial = "tenants-differ"    // Sidenote-Tenant and the credential name different tenants
)

// A Caller is the identified sender of a request.
type Caller struct {
	Policy *Policy // nil if the caller is refused
	By     report.By
	Key    string // name of the API key; "" if it has none or no key was used

	// Claims are the claims of the verified token by name, as in VerifiedToken; nil if the caller
	// was not identified by a token. They must not be changed.
	Claims map[string][]string

	// StripCredential reports that the credential is Sidenote's own, though it did not identify the
	// caller, and must not be forwarded.
	StripCredential bool
	denied          TokenDenial // the reason, if Policy is nil
}

// proven reports whether the caller sent a secret or a signature, which a foreign web page cannot
// make a browser send.
func (c *Caller) proven() bool { return c.By == report.ByKey || c.By == report.ByJWT }

// A Sender holds the parts of a request that identify its sender: the header and the connection.
type Sender struct {
	Header        *fasthttp.RequestHeader
	Peer          transport.Peer
	Remote, Local net.Addr
}

// Identify identifies the caller of a request. It refuses callers that cannot be identified,
// unless there is a policy for unknown callers, and web pages of other sites that send no secret.
// addressed reports whether the request has any Sidenote-* header; true if that is not known. The
// error is an *APIError.
func (d *Directory) Identify(s Sender, addressed bool, now time.Time) (Caller, error) {
	c, sent, err := d.callerOf(s, addressed, now)
	switch {
	case err != nil:
	case c.Policy == nil && !sent:
		err = NoKey()
	case c.Policy == nil:
		// The message is the same for every cause, so that it does not help to guess keys.
		err = &APIError{Reason: report.ReasonKey, Message: "Unknown or expired credential. Send a valid Sidenote API key, token or Sidenote-Tenant header."}
	case !c.proven():
		err = d.CheckPage(s)
	}
	return c, err
}

// Denied returns for the log why the caller is refused; "" if it is not.
func (c *Caller) Denied() string { return string(c.denied) }

// callerOf identifies the caller of a request. sent tells whether the request names a caller at
// all. The error is an *APIError about ambiguous credentials.
func (d *Directory) callerOf(s Sender, addressed bool, now time.Time) (c Caller, sent bool, err error) {
	var key string
	if tenant := s.Peer.Tenant; tenant != "" {
		c, err = d.ofListener(tenant, s.Header, now)
		return c, true, err
	}
	if d.Keyed() {
		if key, err = Credential(s.Header); err != nil {
			return Caller{}, true, err
		}
	}
	if addressed {
		if name, lines := tenantHeader(s.Header); lines > 0 {
			return d.named(name, lines, d.Trusts(s), d.recognise(key, now)), true, nil
		}
	}
	return d.recognise(key, now), key != "", nil
}

// recognise identifies the caller by the key or token that was sent.
func (d *Directory) recognise(key string, now time.Time) Caller {
	if key == "" || !d.Keyed() {
		return d.stranger(deniedUnsent)
	}
	sum := sha256.Sum256([]byte(key))
	if k, ok := d.keys[sum]; ok && subtle.ConstantTimeCompare(k.SHA256[:], sum[:]) == 1 {
		if why := k.denial(now); why != "" {
			return Caller{denied: why} // never falls back to the policy of unknown callers
		}
		k.used.Note(now)
		return Caller{Policy: k.Policy, By: report.ByKey, Key: k.Name}
	}
	if d.tokens == nil {
		return d.stranger(deniedUnknown)
	}
	t, why := d.tokens.Verify(key, sum, now)
	switch {
	case why == TokenForeign:
		return d.stranger(deniedUnknown)
	case t == nil:
		return Caller{denied: why}
	}
	return Caller{Policy: d.byName[t.Tenant], By: report.ByJWT, Claims: t.Claims}
}

// ofListener returns the caller on a listener that is bound to a tenant. Credentials cannot change
// the tenant; they are read only to keep Sidenote's own from the upstream.
func (d *Directory) ofListener(tenant string, h *fasthttp.RequestHeader, now time.Time) (Caller, error) {
	p := d.byName[tenant]
	if p == nil {
		return Caller{denied: deniedNobody}, nil
	}
	c := Caller{Policy: p, By: report.ByListener}
	if !d.Keyed() {
		return c, nil
	}
	key, err := Credential(h)
	if err != nil {
		return Caller{}, err
	}
	sum := sha256.Sum256([]byte(key))
	if _, ours := d.keys[sum]; ours {
		c.StripCredential = true
	} else if key != "" && d.tokens != nil {
		_, why := d.tokens.Verify(key, sum, now)
		c.StripCredential = why != TokenForeign
	}
	return c, nil
}

// stranger returns the Caller for a request that identifies nobody.
func (d *Directory) stranger(why TokenDenial) Caller {
	if d.unknown == nil {
		return Caller{denied: why}
	}
	return Caller{Policy: d.unknown, By: report.ByUnknown}
}

// named returns the caller that the header Sidenote-Tenant names. byKey is the caller by
// credential, which must be of the same tenant; lines is how often the header was sent.
func (d *Directory) named(name []byte, lines int, trusted bool, byKey Caller) Caller {
	p := d.byName[string(name)]
	switch {
	case !trusted:
		return Caller{denied: deniedUntrusted}
	case lines > 1 || len(name) == 0:
		return Caller{denied: deniedHeader}
	case p == nil:
		return Caller{denied: deniedNobody}
	case byKey.proven() && byKey.Policy == p:
		return byKey
	case byKey.proven():
		return Caller{denied: deniedTwo}
	case byKey.Policy == nil && byKey.denied != deniedUnsent && byKey.denied != deniedUnknown:
		return byKey // a known but invalid key or token
	}
	return Caller{Policy: p, By: report.ByHeader}
}

// tenantHeader returns the value of Sidenote-Tenant, in any letter case, and how often it was
// sent. A spelling with "_" for "-" counts as two, so that it is refused.
func tenantHeader(h *fasthttp.RequestHeader) (value []byte, lines int) {
	for name, v := range h.All() {
		if !EqualHeaderName(name, TenantHeader) {
			continue
		}
		if lines++; bytes.ContainsRune(name, '_') {
			lines++
		}
		value = bytes.TrimSpace(v)
	}
	return value, lines
}

// Trusts reports whether the connection's peer may name a tenant. Only the peer itself counts, not
// X-Forwarded-For.
func (d *Directory) Trusts(s Sender) bool {
	if len(d.certificates) > 0 && slices.ContainsFunc(s.Peer.Certificates(), d.trustsCertificate) {
		return true
	}
	return len(d.trusted) > 0 && transport.AddressWithin(d.trusted, transport.AddressOf(s.Remote))
}

// AddressOf returns the address of the client, behind trusted proxies the one they report.
func (d *Directory) AddressOf(ctx *fasthttp.RequestCtx) netip.Addr {
	peer := transport.AddressOf(ctx.RemoteAddr())
	if len(d.proxies) == 0 || !transport.AddressWithin(d.proxies, peer) {
		return peer
	}
	return transport.ClientAddress(peer, d.proxies, ctx.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor))
}

// trustsCertificate reports whether peers with a verified certificate of that name may name a
// tenant.
func (d *Directory) trustsCertificate(name string) bool { return slices.Contains(d.certificates, name) }

// NoKey returns the error for a request without a credential.
func NoKey() error {
	return &APIError{Reason: report.ReasonKey, Message: "No API key was sent. Send yours in the header Authorization as a bearer token, or in X-Api-Key."}
}

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
			return "", &APIError{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The header %s is repeated or spelled with '_'; send your API key once.", name)}
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
// it skips Sidenote-Tenant and Sidenote-Feedback, which are evaluated elsewhere. The error is a *rewrite.OptionError
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
		if identified && (EqualHeaderName(name, TenantHeader) || EqualHeaderName(name, FeedbackHeader)) {
			continue
		}
		header := string(name)
		which, set := OptionOfHeader(header)
		switch {
		case set == nil:
			return o, &rewrite.OptionError{Param: header, Reason: "is no option; use Sidenote-Mode, Sidenote-Knowledge, Sidenote-Context-Tokens or Sidenote-Query"}
		case seen&which != 0:
			return o, &rewrite.OptionError{Param: header, Reason: "is repeated"}
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
