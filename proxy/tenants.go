package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"sidenote/proxy/report"
)

// A Directory finds the policies of Tenants by key and by name. It is read-only and
// safe for concurrent use.
type Directory struct {
	keys    map[[sha256.Size]byte]knownKey
	byName  map[string]*Policy
	unknown *Policy
	keyless keyless
}

// NewDirectory indexes t. If a key stands twice the later one counts; a configuration
// with such keys is refused before it comes here.
func NewDirectory(t Tenants) *Directory {
	d := &Directory{
		keys:    make(map[[sha256.Size]byte]knownKey, len(t.Keys)),
		byName:  make(map[string]*Policy, len(t.Keys)+1),
		unknown: t.Unknown,
		keyless: newKeyless(t),
	}
	uses := t.Uses
	if uses == nil {
		uses = new(KeyUses)
	}
	if t.Unknown != nil {
		d.byName[t.Unknown.Tenant] = t.Unknown
	}
	for i := range t.Keys {
		k := &t.Keys[i]
		d.keys[k.SHA256] = knownKey{k, uses.of(k.SHA256)}
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
	return d.recognise(key, now).Policy
}

// A Caller is who sent a request, as far as Sidenote found out.
type Caller struct {
	Policy *Policy // nil: the caller is refused
	By     report.By
	Key    string // name of the API key; "" if it has none

	// Claims are those of a verified token by name, nested ones with dots between. They are
	// nil if the caller was recognised by anything else. Nobody may change them.
	Claims map[string][]string
}

// proven tells whether the caller sent a secret or a signature. No web page can make a
// browser send either for it.
func (c *Caller) proven() bool { return c.By == report.ByKey || c.By == report.ByJWT }

// recognise finds the caller by an API key as it was sent.
func (d *Directory) recognise(key string, now time.Time) Caller {
	if key == "" || len(d.keys) == 0 {
		return d.stranger()
	}
	sum := sha256.Sum256([]byte(key))
	k, ok := d.keys[sum]
	switch {
	case !ok || subtle.ConstantTimeCompare(k.SHA256[:], sum[:]) != 1:
		return d.stranger()
	case !k.validAt(now):
		return Caller{} // such a key does not get the policy of unknown callers
	}
	k.used.note(now)
	return Caller{Policy: k.Policy, By: report.ByKey, Key: k.Name}
}

// stranger is a caller that nothing names.
func (d *Directory) stranger() Caller {
	return Caller{Policy: d.unknown, By: report.ByUnknown}
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
