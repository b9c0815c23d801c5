package tenant

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

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
