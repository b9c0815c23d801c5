package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"
)

// KeyUses remembers when each API key was last used, to the minute and in memory only.
// Directories that share one forget nothing when one replaces the other. The zero KeyUses
// is ready for use, and safe for concurrent use.
type KeyUses struct {
	byDigest sync.Map // of *lastUse by [sha256.Size]byte
}

// of returns what is remembered of the key with a digest.
func (u *KeyUses) of(digest [sha256.Size]byte) *lastUse {
	use, _ := u.byDigest.LoadOrStore(digest, new(lastUse))
	return use.(*lastUse)
}

// A lastUse is the time of a key's last use in minutes since 1970; 0: it was not used.
type lastUse struct{ minute atomic.Int64 }

// note writes once a minute only, so that requests with one key do not contend for it.
func (l *lastUse) note(now time.Time) {
	if m := now.Unix() / 60; l.minute.Load() != m {
		l.minute.Store(m)
	}
}

func (l *lastUse) time() time.Time {
	m := l.minute.Load()
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(m*60, 0).UTC()
}

// A knownKey is a key of a Directory.
type knownKey struct {
	*Key
	used *lastUse
}

// A KeyInfo is what may be shown of an API key.
type KeyInfo struct {
	Tenant    string
	Name      string // "" if it has none
	Prefix    string // the first 8 hex digits of its SHA-256
	NotBefore time.Time
	Expires   time.Time

	used *lastUse
}

// LastUsed is to the minute; zero: not since this process began.
func (k KeyInfo) LastUsed() time.Time { return k.used.time() }

// KeyList lists the API keys of all tenants, in no order.
func (d *Directory) KeyList() []KeyInfo {
	list := make([]KeyInfo, 0, len(d.keys))
	for _, k := range d.keys {
		list = append(list, KeyInfo{k.Policy.Tenant, k.Name, hex.EncodeToString(k.SHA256[:4]), k.NotBefore, k.Expires, k.used})
	}
	return list
}
