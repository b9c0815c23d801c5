// Package tenant identifies callers and holds the policy of each tenant.
//
// Callers are identified by API keys, tokens (JWT), client certificates, trusted headers and
// listeners. OriginRules limit the web pages and host names for callers without a credential.
// ReadHeaderOptions reads the headers that narrow the policy for one request. A Switch lowers the
// mode of tenants at run time. APIError is an error of Sidenote's own in the shape of OpenAI's
// errors.
package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
)

// A Directory looks up policies by credential and by tenant name. It is read-only and safe for
// concurrent use.
type Directory struct {
	keys    map[[sha256.Size]byte]knownKey
	byName  map[string]*Policy
	unknown *Policy
	tokens  *Verifier // nil if tokens are not accepted
	trusted []netip.Prefix

	certificates []string       // names of trusted peers
	proxies      []netip.Prefix // see Tenants.Proxies
	keyless      OriginRules    // for callers without a key or token
}

// NewDirectory indexes t. Of duplicate keys the last one wins; loading a configuration refuses
// them earlier.
func NewDirectory(t Tenants) *Directory {
	d := &Directory{
		keys:    make(map[[sha256.Size]byte]knownKey, len(t.Keys)),
		byName:  make(map[string]*Policy, len(t.Keys)+1),
		unknown: t.Unknown,
		trusted: t.Trusted,
		keyless: NewOriginRules(t.Origins, t.Hosts),

		certificates: t.Certificates,
		proxies:      t.Proxies,
	}
	uses := t.Uses
	if uses == nil {
		uses = new(KeyUses)
	}
	if t.Unknown != nil {
		d.byName[t.Unknown.Tenant] = t.Unknown
	}
	if len(t.Issuers) > 0 {
		d.tokens = NewVerifier(t.Issuers, t.Rules)
	}
	for _, p := range t.Named {
		d.byName[p.Tenant] = p
	}
	for i := range t.Keys {
		k := &t.Keys[i]
		d.keys[k.SHA256] = knownKey{k, uses.Of(k.SHA256)}
		d.byName[k.Policy.Tenant] = k.Policy
	}
	return d
}

// Keyed reports whether keys or tokens can identify a tenant. If not, credentials are left to the
// upstream and not read.
func (d *Directory) Keyed() bool { return len(d.keys) > 0 || d.tokens != nil }

// ByKey returns the policy for an API key as it was sent; nil if the caller is refused. Its timing
// reveals only hit or miss, since the lookup is by digest and no caller can choose a digest close
// to another key's.
func (d *Directory) ByKey(key string, now time.Time) *Policy {
	return d.recognise(key, now).Policy
}

// ByName returns the policy of a tenant; nil if there is none. The name "" means callers without a
// known key.
func (d *Directory) ByName(name string) *Policy {
	if name == "" {
		return d.unknown
	}
	return d.byName[name]
}

// Policies returns all policies by tenant, in a new map.
func (d *Directory) Policies() map[string]*Policy {
	all := make(map[string]*Policy, len(d.byName))
	for name, p := range d.byName {
		all[name] = p
	}
	return all
}

// KeyUses remembers when each API key was last used, to the minute and in memory only. The zero
// KeyUses is ready for use; it is safe for concurrent use.
type KeyUses struct {
	byDigest sync.Map // of *LastUse by [sha256.Size]byte
}

// Of returns the last use of the key with that digest.
func (u *KeyUses) Of(digest [sha256.Size]byte) *LastUse {
	use, _ := u.byDigest.LoadOrStore(digest, new(LastUse))
	return use.(*LastUse)
}

// A LastUse is the time of a key's last use in minutes since 1970; 0 if it was not used.
type LastUse struct{ minute atomic.Int64 }

// Note records a use. It writes at most once a minute, so that requests with one key do not
// contend.
func (l *LastUse) Note(now time.Time) {
	if m := now.Unix() / 60; l.minute.Load() != m {
		l.minute.Store(m)
	}
}

// Time returns the last use, to the minute; zero if the key was not used.
func (l *LastUse) Time() time.Time {
	m := l.minute.Load()
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(m*60, 0).UTC()
}

// A knownKey is a key of a Directory and its last use.
type knownKey struct {
	*Key
	used *LastUse
}

// A KeyInfo is the public description of an API key.
type KeyInfo struct {
	Tenant    string
	Name      string // "" if it has none
	Prefix    string // the first 8 hex digits of its SHA-256
	NotBefore time.Time
	Expires   time.Time

	used *LastUse
}

// LastUsed returns the time of the last use since this process started, to the minute; zero if
// there was none.
func (k KeyInfo) LastUsed() time.Time { return k.used.Time() }

// KeyList returns the API keys of all tenants, in no particular order.
func (d *Directory) KeyList() []KeyInfo {
	list := make([]KeyInfo, 0, len(d.keys))
	for _, k := range d.keys {
		list = append(list, KeyInfo{k.Policy.Tenant, k.Name, hex.EncodeToString(k.SHA256[:4]), k.NotBefore, k.Expires, k.used})
	}
	return list
}

// CheckPage refuses requests of web pages of other sites. On a loopback address it also refuses
// unknown host names, since a page can make its own name resolve to this machine (DNS rebinding).
// Comparing the origin with the host name would not help: after DNS rebinding they are equal.
func (d *Directory) CheckPage(s Sender) error {
	for _, value := range s.Header.PeekAll(fasthttp.HeaderOrigin) {
		if !d.keyless.AllowsOrigin(string(value)) {
			return &APIError{Reason: report.ReasonOrigin, Param: fasthttp.HeaderOrigin, Message: fmt.Sprintf("Web pages of %q may not send requests without an API key; add their origin to identity.origins in the configuration.", value)}
		}
	}
	if local, ok := s.Local.(*net.TCPAddr); !ok || !local.IP.IsLoopback() {
		return nil
	}
	for _, host := range [...][]byte{s.Header.Host(), Authority(s.Header.RequestURI())} {
		if !d.keyless.AllowsHost(host) {
			return &APIError{Reason: report.ReasonHost, Param: fasthttp.HeaderHost, Message: fmt.Sprintf("Sidenote is not known as %q on this machine; call it by address or as localhost, or list the name under identity.hosts in the configuration.", host)}
		}
	}
	return nil
}
