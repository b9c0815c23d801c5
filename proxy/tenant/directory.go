// Package tenant identifies callers and holds the policy of each tenant.
//
// Callers are identified by API keys, tokens (JWT), client certificates, trusted headers and
// listeners. OriginRules says from which web pages and by which host names callers without a
// credential may send requests. ReadHeaderOptions reads the headers by which a request narrows its
// policy, and a Switch lowers the mode of tenants while the process runs. APIError is an error of
// Sidenote's own, in the shape of OpenAI's errors.
package tenant

import (
	"crypto/sha256"
	"net/netip"
	"time"
)

// A Directory finds the policies of Tenants by credential and by name. It is read-only and
// safe for concurrent use.
type Directory struct {
	keys    map[[sha256.Size]byte]knownKey
	byName  map[string]*Policy
	unknown *Policy
	tokens  *Verifier // nil: tokens are not read
	trusted []netip.Prefix

	certificates []string       // names of trusted peers
	proxies      []netip.Prefix // see Tenants.Proxies
	keyless      OriginRules    // for callers that prove nothing
}

// NewDirectory indexes t. If a key stands twice the later one counts; a configuration
// with such keys is refused before it comes here.
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

// Keyed tells whether keys or tokens can name a tenant. If they cannot, Sidenote does not
// read the credentials of requests; they are for the upstream.
func (d *Directory) Keyed() bool { return len(d.keys) > 0 || d.tokens != nil }

// ByKey returns the policy for an API key as it was sent, nil if the caller is refused.
// The time it takes tells nothing about the keys but hit or miss: the look-up is by
// digest, and no caller can choose a digest close to that of another key.
func (d *Directory) ByKey(key string, now time.Time) *Policy {
	return d.recognise(key, now).Policy
}

// ByName returns the policy of a tenant, nil if there is none of that name; "" stands
// for callers without a known key.
func (d *Directory) ByName(name string) *Policy {
	if name == "" {
		return d.unknown
	}
	return d.byName[name]
}

// Policies returns every tenant's policy by tenant. The map is the caller's.
func (d *Directory) Policies() map[string]*Policy {
	all := make(map[string]*Policy, len(d.byName))
	for name, p := range d.byName {
		all[name] = p
	}
	return all
}
