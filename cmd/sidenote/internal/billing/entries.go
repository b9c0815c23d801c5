package billing

import (
	"container/list"
	"time"
)

// maxEntries limits the remembered prefixes of a cache.
const maxEntries = 1 << 16

// entries remembers the prefixes that requests wrote.
type entries struct {
	at    map[digest]*list.Element
	order *list.List // of entry, the one used last at the front
}

type entry struct {
	digest   digest
	lifetime time.Duration
	expires  time.Time
}

func newEntries() *entries { return &entries{map[digest]*list.Element{}, list.New()} }

// has reports whether a prefix is cached at a time. Each use of an entry renews its lifetime; use
// does that.
func (e *entries) has(d digest, now time.Time) bool {
	element, ok := e.at[d]
	return ok && now.Before(element.Value.(entry).expires)
}

// use renews the lifetime of a cached prefix.
func (e *entries) use(d digest, now time.Time) {
	element := e.at[d]
	used := element.Value.(entry)
	used.expires = now.Add(used.lifetime)
	element.Value = used
	e.order.MoveToFront(element)
}

// write caches a prefix, for at least as long as it is cached already.
func (e *entries) write(d digest, lifetime time.Duration, now time.Time) {
	written := entry{d, lifetime, now.Add(lifetime)}
	if element, ok := e.at[d]; ok {
		if old := element.Value.(entry); now.Before(old.expires) && old.lifetime > lifetime {
			return
		}
		element.Value = written
		e.order.MoveToFront(element)
		return
	}
	e.at[d] = e.order.PushFront(written)
	if e.order.Len() > maxEntries {
		oldest := e.order.Back()
		delete(e.at, e.order.Remove(oldest).(entry).digest)
	}
}
