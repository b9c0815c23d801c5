package tenant

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/transport"
)

// The reasons why callers are denied, beside those of tokens. Like those they
// are for the log.
const (
	deniedUnsent    TokenDenial = "no-credential"
	deniedUnknown   TokenDenial = "unknown-key"
	deniedEarly     TokenDenial = "key-not-yet-valid"
	deniedExpired   TokenDenial = "key-expired"
	deniedUntrusted TokenDenial = "untrusted-peer"    // with the header Sidenote-Tenant
	deniedHeader    TokenDenial = "bad-tenant-header" // empty, twice, or with "_" for "-"
	deniedNobody    TokenDenial = "unknown-tenant"    // in that header
	deniedTwo       TokenDenial = "tenants-differ"    // in that header and the credential
)

// A Caller is who sent a request, as far as Sidenote found out.
type Caller struct {
	Policy *Policy // nil: the caller is refused
	By     report.By
	Key    string // name of the API key; "" if it has none

	// Claims are those of a verified token by name, as in VerifiedToken. They are nil if
	// the caller was recognised by anything else. Nobody may change them.
	Claims map[string][]string

	// Drop says that the credential is for Sidenote, though it does not name the caller, and
	// so does not go up.
	Drop   bool
	denied TokenDenial // why, if Policy is nil
}

// proven tells whether the caller sent a secret or a signature. No web page can make a
// browser send either for it.
func (c *Caller) proven() bool { return c.By == report.ByKey || c.By == report.ByJWT }

// A Sender is what a request says of who sends it: its head and its connection.
type Sender struct {
	Header        *fasthttp.RequestHeader
	Peer          transport.Peer
	Remote, Local net.Addr
}

// Identify finds out who sends a request, and refuses those who may send none: whom nothing
// names, unless there is a tenant for them, and pages of other sites without a secret. The
// error is an *APIError.
func (d *Directory) Identify(s Sender, now time.Time) (Caller, error) {
	return d.IdentifyBy(s, true, now)
}

// IdentifyBy is Identify; addressed tells whether the request has any header Sidenote-*.
func (d *Directory) IdentifyBy(s Sender, addressed bool, now time.Time) (Caller, error) {
	c, sent, err := d.callerOf(s, addressed, now)
	switch {
	case err != nil:
	case c.Policy == nil && !sent:
		err = NoKey()
	case c.Policy == nil:
		// Whatever is wrong, it is said in the same words: they must not help to guess.
		err = &APIError{Reason: report.ReasonKey, Message: "Unknown or expired credential. Send a valid Sidenote API key, token or Sidenote-Tenant header."}
	case !c.proven():
		err = d.CheckPage(s)
	}
	return c, err
}

// Denied says for the log why the caller is refused; "" if it is not.
func (c *Caller) Denied() string { return string(c.denied) }

// callerOf finds out who sends a request. sent tells whether the request names anybody. The
// error is an *APIError about credentials that cannot be read in one way.
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

// recognise finds the caller by a key or token as it was sent.
func (d *Directory) recognise(key string, now time.Time) Caller {
	if key == "" || !d.Keyed() {
		return d.stranger(deniedUnsent)
	}
	sum := sha256.Sum256([]byte(key))
	if k, ok := d.keys[sum]; ok && subtle.ConstantTimeCompare(k.SHA256[:], sum[:]) == 1 {
		if why := k.denial(now); why != "" {
			return Caller{denied: why} // it does not get the policy of unknown callers
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

// ofListener is the caller of a listener that has a tenant. Nothing that is sent can make it
// another one; what is sent is read only to keep credentials for Sidenote from the upstream.
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
		c.Drop = true
	} else if key != "" && d.tokens != nil {
		_, why := d.tokens.Verify(key, sum, now)
		c.Drop = why != TokenForeign
	}
	return c, nil
}

// stranger is a caller that nothing names.
func (d *Directory) stranger(why TokenDenial) Caller {
	if d.unknown == nil {
		return Caller{denied: why}
	}
	return Caller{Policy: d.unknown, By: report.ByUnknown}
}

// named is the caller that a header Sidenote-Tenant names and byKey its credential. lines is
// how often the header is there. A credential of ours must name the same tenant.
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
		return byKey // a key or token of ours that does not count
	}
	return Caller{Policy: p, By: report.ByHeader}
}

// tenantHeader returns the value of Sidenote-Tenant and how often it is there, in any letter
// case. One with "_" for "-" counts as two, since no server should take it for the header.
func tenantHeader(h *fasthttp.RequestHeader) (value []byte, lines int) {
	for name, v := range h.All() {
		if !FoldsHeader(name, TenantHeader) {
			continue
		}
		if lines++; bytes.ContainsRune(name, '_') {
			lines++
		}
		value = bytes.TrimSpace(v)
	}
	return value, lines
}

// Trusts tells whether the peer of a request's connection may name a tenant. What a peer
// says of an address in front of it does not count.
func (d *Directory) Trusts(s Sender) bool {
	if len(d.certificates) > 0 && slices.ContainsFunc(s.Peer.Certificates(), d.trustsCertificate) {
		return true
	}
	return len(d.trusted) > 0 && transport.AddressWithin(d.trusted, transport.AddressOf(s.Remote))
}

// AddressOf returns the address of a request's client.
func (d *Directory) AddressOf(ctx *fasthttp.RequestCtx) netip.Addr {
	peer := transport.AddressOf(ctx.RemoteAddr())
	if len(d.proxies) == 0 || !transport.AddressWithin(d.proxies, peer) {
		return peer
	}
	return transport.ClientAddress(peer, d.proxies, ctx.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor))
}

// trustsCertificate tells whether peers with a verified certificate of that name may name a
// tenant.
func (d *Directory) trustsCertificate(name string) bool { return slices.Contains(d.certificates, name) }

// NoKey refuses a request that names nobody.
func NoKey() error {
	return &APIError{Reason: report.ReasonKey, Message: "No API key was sent. Send yours in the header Authorization as a bearer token."}
}
