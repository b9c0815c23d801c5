package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"
)

// A Directory finds the policies of Tenants by key and by name. It is read-only and
// safe for concurrent use.
type Directory struct {
	keys    map[[sha256.Size]byte]*Key
	byName  map[string]*Policy
	unknown *Policy
	keyless keyless
}

// NewDirectory indexes t. If a key stands twice the later one counts; a configuration
// with such keys is refused before it comes here.
func NewDirectory(t Tenants) *Directory {
	d := &Directory{
		keys:    make(map[[sha256.Size]byte]*Key, len(t.Keys)),
		byName:  make(map[string]*Policy, len(t.Keys)+1),
		unknown: t.Unknown,
		keyless: newKeyless(t),
	}
	if t.Unknown != nil {
		d.byName[t.Unknown.Tenant] = t.Unknown
	}
	for i := range t.Keys {
		k := &t.Keys[i]
		d.keys[k.SHA256] = k
		d.byName[k.Policy.Tenant] = k.Policy
	}
	return d
}

// Keyed tells whether any tenant has a key. If none has, Sidenote does not read the
// credentials of requests; they are for the upstream.
func (d *Directory) Keyed() bool { return len(d.keys) > 0 }

// ByKey returns the policy for an API key as it was sent, nil if the caller is refused.
// The time it takes tells nothing about the keys but hit or miss: the look-up is by
// digest, and no caller can choose a digest close to that of another key.
func (d *Directory) ByKey(key string, now time.Time) *Policy {
	p, _ := d.recognise(key, now)
	return p
}

// recognise is ByKey; byKey tells whether the policy is that of the key, not that of
// unknown callers.
func (d *Directory) recognise(key string, now time.Time) (p *Policy, byKey bool) {
	if key == "" || len(d.keys) == 0 {
		return d.unknown, false
	}
	sum := sha256.Sum256([]byte(key))
	k := d.keys[sum]
	if k == nil || subtle.ConstantTimeCompare(k.SHA256[:], sum[:]) != 1 {
		return d.unknown, false
	}
	if !k.Expires.IsZero() && now.After(k.Expires) {
		return nil, false // an expired key does not get the policy of unknown callers
	}
	return k.Policy, true
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
