// Package keyuse remembers when API keys were used.
package keyuse

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// Uses remembers when each API key was last used, to the minute and in memory only. The zero Uses
// is ready for use, and safe for concurrent use.
type Uses struct {
	byDigest sync.Map // of *Last by [sha256.Size]byte
}

// Of returns what is remembered of the key with a digest.
func (u *Uses) Of(digest [sha256.Size]byte) *Last {
	use, _ := u.byDigest.LoadOrStore(digest, new(Last))
	return use.(*Last)
}

// A Last is the time of a key's last use in minutes since 1970; 0: it was not used.
type Last struct{ minute atomic.Int64 }

// Note writes once a minute only, so that requests with one key do not contend for it.
func (l *Last) Note(now time.Time) {
	if m := now.Unix() / 60; l.minute.Load() != m {
		l.minute.Store(m)
	}
}

// Time is to the minute; zero: the key was not used.
func (l *Last) Time() time.Time {
	m := l.minute.Load()
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(m*60, 0).UTC()
}
