package model

import (
	"slices"
	"sync"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// A CostCounter counts the tokens of requests. It caches the counts of messages and lists of
// tools by hashes of their bytes, so that in a growing conversation only the new message is
// counted. The zero value is ready to use. It is safe for concurrent use.
type CostCounter struct {
	Cache *tokens.Cache // if nil at the first use, set to a cache of 64k counts (1 MiB)
	brief *tokens.Cache // 16k more (256 KiB) for less useful counts
	once  sync.Once
}

const (
	cacheBits = 14
	briefBits = 12
)

// Of returns the MessageCosts of r.
func (c *CostCounter) Of(r *chat.Request) *MessageCosts {
	m := new(MessageCosts)
	c.Read(m, r)
	return m
}

// Read initialises m, which must be empty, for the messages of r.
func (c *CostCounter) Read(m *MessageCosts, r *chat.Request) {
	c.once.Do(func() {
		if c.Cache == nil {
			c.Cache = tokens.NewCache(cacheBits)
		}
		c.brief = tokens.NewCache(briefBits)
	})
	m.request, m.cache, m.brief = r, c.Cache, c.brief
}

// Count counts the whole request; see MessageCosts.Count.
func (c *CostCounter) Count(r *chat.Request, m CostModel, limit int) CostTokens {
	return c.Of(r).Count(m, limit)
}

// MessageCosts counts the messages of one request, hashing each only once. It is not safe for
// concurrent use.
type MessageCosts struct {
	request *chat.Request
	cache   *tokens.Cache
	brief   *tokens.Cache
	keys    []tokens.Key // by message; zero if not computed yet
}

// Released returns an empty MessageCosts that reuses the memory of c. c must not be used any
// more.
func (c *MessageCosts) Released() MessageCosts { return MessageCosts{keys: c.keys[:0]} }

// key returns the cache key of message n.
func (c *MessageCosts) key(n int) tokens.Key {
	all := c.request.Messages
	if len(c.keys) == 0 {
		c.keys = slices.Grow(c.keys, len(all))[:len(all)]
		clear(c.keys)
	}
	if c.keys[n] == (tokens.Key{}) {
		c.keys[n] = c.cache.Key(all[n].Of(c.request.Body))
	}
	return c.keys[n]
}

// Remember returns the cached result of count for message n and the key what. The result must be
// 0 or more and depend only on the bytes of the message and on what.
func (c *MessageCosts) Remember(n int, what uint64, count func() int) int {
	return remember(c.cache, c.key(n).Of(what), count)
}

// RememberBriefly is like Remember for results that depend on more than the message, of which
// there are many: they do not displace those of Remember and Count.
func (c *MessageCosts) RememberBriefly(n int, what uint64, count func() int) int {
	return remember(c.brief, c.key(n).Of(what), count)
}

func remember(in *tokens.Cache, k tokens.Key, count func() int) int {
	if v, _, ok := in.Get(k); ok {
		return v
	}
	v := count()
	in.Put(k, v, true)
	return v
}
