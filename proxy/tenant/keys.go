package tenant

import (
	"encoding/hex"
	"time"
)

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
