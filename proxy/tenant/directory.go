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
	"net/netip"
	"time"
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
