package toolcalls

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// entryOverhead is the approximate memory of an entry besides its key and value, in bytes.
const entryOverhead = 256

// A TurnMemory is an in-process cache.Store with a limit in bytes. When full, it drops the oldest
// entries. A cache.Memory would rather refuse new entries than drop those read often, but a turn
// is read only once or twice, soon after it was stored.
type TurnMemory struct {
	limit int64

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   list.List                // oldest first
	bytes   int64
}

type entry struct {
	key   string
	value []byte
	ends  time.Time
}

func (e *entry) size() int64 { return int64(len(e.key)+len(e.value)) + entryOverhead }

// NewTurnMemory returns a TurnMemory of at most limit bytes.
func NewTurnMemory(limit int64) *TurnMemory {
	return &TurnMemory{limit: limit, entries: map[string]*list.Element{}}
}

// Get returns the value of key, nil if it is absent or expired. It never fails.
func (m *TurnMemory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	at := m.entries[key]
	if at == nil {
		return nil, nil
	}
	if e := at.Value.(*entry); time.Now().Before(e.ends) {
		return e.value, nil
	}
	return nil, nil
}

// Set stores val for ttl. If ttl is not positive, or val is larger than the limit, key is absent
// afterwards. It never fails.
func (m *TurnMemory) Set(_ context.Context, key string, val []byte, ttl time.Duration) error {
	e := &entry{key, val, time.Now().Add(ttl)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.entries[key]; at != nil {
		m.drop(at)
	}
	m.expire()
	if e.size() > m.limit {
		return nil
	}
	m.entries[key] = m.order.PushBack(e)
	for m.bytes += e.size(); m.bytes > m.limit; {
		m.drop(m.order.Front())
	}
	return nil
}

// Bytes returns the size of all entries, counted like the limit.
func (m *TurnMemory) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.bytes
}

// expire drops the oldest entries while they are expired. Lifetimes differ little, so no entry
// stays much longer than its own.
func (m *TurnMemory) expire() {
	now := time.Now()
	for at := m.order.Front(); at != nil && !now.Before(at.Value.(*entry).ends); at = m.order.Front() {
		m.drop(at)
	}
}

func (m *TurnMemory) drop(at *list.Element) {
	e := m.order.Remove(at).(*entry)
	delete(m.entries, e.key)
	m.bytes -= e.size()
}
