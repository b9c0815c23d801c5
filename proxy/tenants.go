package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"
)

// A Directory is a set of Tenants made ready for look-ups. It is read-only and
// safe for concurrent use.
type Directory struct {
	keys    map[[sha256.Size]byte]*Key
	byName  map[string]*Policy
	unknown *Policy
	keyless keyless
}

// NewDirectory indexes t. Of a key that stands twice the later one counts;
// configurations with one are refused before.
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

// Keyed tells whether any tenant is recognised by a key. Where none is, the
// credentials of a request are between client and upstream.
func (d *Directory) Keyed() bool { return len(d.keys) > 0 }

// ByKey returns the policy for an API key as it was sent, nil when its caller is
// refused. Neither hits nor misses tell more of the keys by their time than that
// they are hits or misses: what is looked up is a digest, which no caller can
// steer towards another's.
func (d *Directory) ByKey(key string, now time.Time) *Policy {
	p, _ := d.recognise(key, now)
	return p
}

// recognise is ByKey; byKey tells whether it is the key that names the caller.
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
		return nil, false // a key that expired does not fall back to what strangers get
	}
	return k.Policy, true
}

// ByName returns the policy of a tenant, nil for a name that none has; "" is the
// tenant of callers without a key.
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
