package experiment

import (
	"context"
	"slices"
	"sync"
)

// maxKeys is how many keys of conversations are remembered, the latest ones. A conversation has
// about two for each turn.
const maxKeys = 400_000

// A Turn identifies a request of a conversation by hashes of its texts.
type Turn struct {
	// Held is the key of the response that the request continues; 0 if it repeats its history. The
	// upstream holds the turns before.
	Held Key
	// First is the key of the user's first message as the beginning of a conversation.
	First Key
	// Messages are the keys of the user's latest messages, and Pairs those of each with the message
	// before it and the answer to that, both the latest first.
	Messages, Pairs []Key
}

// A Shared store lets replicas find each other's conversations. It is a cache.History.
type Shared interface {
	Each(ctx context.Context, tenant, access string, ids []string, do func(i int, unit Key) bool)
	Keep(ctx context.Context, tenant, access, id string, unit Key)
}

// Conversations remembers of which conversation a turn is, so that a conversation stays the same
// when its beginning is no longer sent. It is safe for concurrent use.
type Conversations struct {
	Shared Shared // nil: none

	mu    sync.Mutex
	units map[Key]Key
	order []Key // the keys of units, in a ring
	next  int
	dirty bool
}

// Of returns the conversation of a turn and remembers it. ok is false if the turn continues one
// that is not known.
//
// The beginning of a conversation names it. If that was not seen, an application may have cut off
// the beginning, and an earlier turn tells the conversation: two consecutive messages of it, or one
// message. Only without any does the first message that is left name a new conversation.
func (c *Conversations) Of(ctx context.Context, tenant string, t *Turn) (unit Key, ok bool) {
	if t.Held != 0 {
		unit, ok = c.find(ctx, tenant, []Key{t.Held})
		return unit, ok && unit != 0
	}
	if unit = t.First; len(t.Messages) > 1 {
		known := slices.Clone(t.Pairs)
		slices.Reverse(known) // the newest pair may be in many conversations
		known = append(known, t.First)
		known = append(known, t.Messages[1:]...)
		if found, ok := c.find(ctx, tenant, known); ok {
			unit = found
		}
	}
	keys := make([]Key, 0, 3)
	if unit == t.First {
		keys = append(keys, t.First)
	}
	c.Remember(ctx, tenant, unit, append(append(keys, t.Messages[:min(1, len(t.Messages))]...), t.Pairs[:min(1, len(t.Pairs))]...)...)
	return unit, true
}

// find returns the unit of the first key that has one, here or at other replicas. These are asked only for
// the keys before the first one that is known here.
func (c *Conversations) find(ctx context.Context, tenant string, keys []Key) (unit Key, ok bool) {
	c.mu.Lock()
	for i, key := range keys {
		if unit, ok = c.units[key]; ok {
			keys = keys[:i]
			break
		}
	}
	c.mu.Unlock()
	if c.Shared == nil || len(keys) == 0 {
		return unit, ok
	}
	ids := make([]string, 0, len(keys))
	for _, key := range keys {
		ids = append(ids, key.String())
	}
	c.Shared.Each(ctx, tenant, "", ids, func(_ int, found Key) bool {
		unit, ok = found, true
		return false
	})
	return unit, ok
}

// Remember notes that keys are of a unit; 0 says that the conversation is not known.
func (c *Conversations) Remember(ctx context.Context, tenant string, unit Key, keys ...Key) {
	for _, key := range keys {
		if c.remember(key, unit) && c.Shared != nil {
			c.Shared.Keep(ctx, tenant, "", key.String(), unit)
		}
	}
}

// remember returns whether that was not known before.
func (c *Conversations) remember(key, unit Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.units[key]
	if known && before == unit {
		return false
	}
	if c.units == nil {
		c.units = map[Key]Key{}
	}
	c.units[key], c.dirty = unit, true
	switch {
	case known:
	case len(c.order) < maxKeys:
		c.order = append(c.order, key)
	default:
		delete(c.units, c.order[c.next])
		c.order[c.next] = key
		c.next = (c.next + 1) % maxKeys
	}
	return true
}

// Repeats reports whether a question repeats the one before: at least half of the content terms of
// both are in both (Jaccard).
func Repeats(terms func(text string) []string, question, before string) bool {
	in := map[string]bool{}
	for _, term := range terms(before) {
		in[term] = true
	}
	all, both := len(in), 0
	for _, term := range terms(question) {
		shared, seen := in[term]
		switch {
		case !seen:
			all++
		case shared:
			both++
		}
		in[term] = false // counted
	}
	return both > 0 && 2*both >= all
}
