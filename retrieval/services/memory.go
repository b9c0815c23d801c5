package services

import (
	"slices"
	"sync"
	"time"
)

const (
	// keep is how long a refusal is remembered: a gateway may put another model behind the same
	// name.
	keep = time.Hour
	// maxKeys limits the size of a Memory, as clients may choose model names.
	maxKeys = 1024
	// maxEach limits the remembered parameters of one model.
	maxEach = 16
)

// A Memory remembers for an hour which parameters models refused. Its zero value is ready to use.
// It is safe for concurrent use.
type Memory struct {
	Now func() time.Time // nil: time.Now

	mu    sync.Mutex
	byKey map[string]remembered
}

type remembered struct {
	refusals []Refusal
	until    time.Time
}

// Add stores a refusal by the model with the given key. If the Memory is full, the oldest model is
// dropped.
func (m *Memory) Add(key string, r Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.byKey[key]
	if m.now().After(was.until) {
		was.refusals = nil
	}
	was.refusals = slices.DeleteFunc(slices.Clone(was.refusals), func(o Refusal) bool { return o.Param == r.Param })
	if len(was.refusals) >= maxEach {
		return
	}
	if _, ok := m.byKey[key]; !ok && len(m.byKey) >= maxKeys {
		m.forget()
	}
	if m.byKey == nil {
		m.byKey = map[string]remembered{}
	}
	m.byKey[key] = remembered{append(was.refusals, r), m.now().Add(keep)}
}

// forget drops the oldest entry.
func (m *Memory) forget() {
	var oldest string
	var until time.Time
	for key, r := range m.byKey {
		if until.IsZero() || r.until.Before(until) {
			oldest, until = key, r.until
		}
	}
	delete(m.byKey, oldest)
}

// Empty reports whether nothing was ever remembered.
func (m *Memory) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byKey) == 0
}

// Of returns what the model with the given key refuses. The caller must not modify it.
func (m *Memory) Of(key string) []Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.byKey[key]; ok && !m.now().After(r.until) {
		return r.refusals
	}
	return nil
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}
