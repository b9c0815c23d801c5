package model

import (
	"slices"
	"sync"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// A CostCounter counts requests. It remembers the counts of messages and lists of tools by
// hashes of their bytes, so that in a growing conversation only the new message is
// counted. The zero value is ready. It is safe for concurrent use.
type CostCounter struct {
	Cache *tokens.Cache // 64k counts in 1 MiB unless it is set before the first use
	brief *tokens.Cache // 16k more in 256 KiB, of what is of less use
	once  sync.Once
}

const (
	cacheBits = 14
	briefBits = 12
)

// Of returns what is known of the messages of r.
func (c *CostCounter) Of(r *chat.Request) *MessageCosts {
	m := new(MessageCosts)
	c.Read(m, r)
	return m
}

// Read makes m, which is empty, what is known of the messages of r.
func (c *CostCounter) Read(m *MessageCosts, r *chat.Request) {
	c.once.Do(func() {
		if c.Cache == nil {
			c.Cache = tokens.NewCache(cacheBits)
		}
		c.brief = tokens.NewCache(briefBits)
	})
	m.request, m.cache, m.brief = r, c.Cache, c.brief
}

// Count counts the whole request; see Messages.Count.
func (c *CostCounter) Count(r *chat.Request, m CostModel, limit int) CostTokens {
	return c.Of(r).Count(m, limit)
}

// MessageCosts are those of one request, each of which is hashed once. It is not safe for
// concurrent use.
type MessageCosts struct {
	request *chat.Request
	cache   *tokens.Cache
	brief   *tokens.Cache
	keys    []tokens.Key // of each that was asked for, else zero
}

// Released returns empty Messages with the memory of c, which is not used any more.
func (c *MessageCosts) Released() MessageCosts { return MessageCosts{keys: c.keys[:0]} }

// key returns the key of the n-th message.
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

// Remember returns count's result for the n-th message, a number of 0 or more that depends
// on nothing but the bytes of the message and what. It is remembered for these.
func (c *MessageCosts) Remember(n int, what uint64, count func() int) int {
	return remember(c.cache, c.key(n).Of(what), count)
}

// RememberBriefly is Remember for what depends on more than the message, of which there is
// much: it does not drive out what Remember and Count remember.
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
