package tenant

import (
	"crypto/sha256"
	"sync"
)

// maxCached is how much the tokens of a tokenCache may measure together, in bytes. What is
// kept of a token takes a few times its size.
const maxCached = 8 << 20

// A tokenCache keeps what verified tokens name by the SHA-256 of the token, so that the
// tokens themselves are not in memory. The zero tokenCache is empty and ready for use.
type tokenCache struct {
	mu    sync.RWMutex
	known map[[sha256.Size]byte]*VerifiedToken
	size  int
}

func (c *tokenCache) get(digest [sha256.Size]byte) *VerifiedToken {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.known[digest]
}

// put drops others, whichever, where there is no room. They are verified again when they
// come again; those that have expired or whose keys were replaced are gone for good.
func (c *tokenCache) put(digest [sha256.Size]byte, t *VerifiedToken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[[sha256.Size]byte]*VerifiedToken{}
	}
	if before := c.known[digest]; before != nil {
		c.size -= before.size
	}
	c.known[digest] = t
	c.size += t.size
	for other, dropped := range c.known {
		if c.size <= maxCached {
			return
		}
		if other != digest {
			c.size -= dropped.size
			delete(c.known, other)
		}
	}
}
