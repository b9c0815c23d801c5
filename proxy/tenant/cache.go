package tenant

import (
	"crypto/sha256"
	"sync"
)

// maxCached limits the sum of the lengths of all cached tokens, in bytes. What is cached for a
// token takes a few times its length.
const maxCached = 8 << 20

// A tokenCache maps the SHA-256 of verified tokens to their content, so that the tokens themselves
// are not kept in memory. The zero tokenCache is empty and ready for use.
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

// put adds t and evicts arbitrary other tokens above maxCached. An evicted token is verified again
// at its next use.
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
