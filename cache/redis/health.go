package redis

import (
	"slices"
	"sync"
	"time"
)

// A health is what does not work at present, by what it is that does not. Each
// line is told once from when the first subject fails to when the last one that
// it was said of works again, however often the reasons take turns.
type health struct {
	mu      sync.Mutex
	bad     map[string]illness // by subject
	changed func(string, bool)
}

// An illness is what has been wrong since a subject last worked.
type illness struct {
	lines []string // the present one last
	seen  time.Time
}

// calm is how long a subject must not fail before a success counts as its cure: a
// Redis at the limit of its memory refuses one write and takes the next.
const calm = 2 * time.Second

// fail notes what is wrong with subject.
func (h *health) fail(subject, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ill := h.bad[subject]
	known := h.said(line)
	ill.lines = append(slices.DeleteFunc(ill.lines, func(l string) bool { return l == line }), line)
	ill.seen = time.Now()
	if h.bad == nil {
		h.bad = map[string]illness{}
	}
	h.bad[subject] = ill
	if !known {
		h.tell(line, true)
	}
}

// improve notes that subject worked once, and tells whether it is well now.
func (h *health) improve(subject string) (well bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ill, bad := h.bad[subject]
	if bad && time.Since(ill.seen) < calm {
		return false
	}
	h.end(subject)
	return true
}

// mend notes that subject works.
func (h *health) mend(subject string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(subject)
}

func (h *health) end(subject string) {
	lines := h.bad[subject].lines
	delete(h.bad, subject)
	for _, line := range lines {
		if !h.said(line) {
			h.tell(line, false)
		}
	}
}

// said tells whether line is said of any subject.
func (h *health) said(line string) bool {
	for _, ill := range h.bad {
		if slices.Contains(ill.lines, line) {
			return true
		}
	}
	return false
}

func (h *health) tell(line string, bad bool) {
	if h.changed != nil {
		h.changed(line, bad)
	}
}

// lines lists what is wrong now, each line once: several uses suffer from one
// Redis.
func (h *health) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, ill := range h.bad {
		lines = append(lines, ill.lines[len(ill.lines)-1])
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
