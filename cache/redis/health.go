package redis

import (
	"slices"
	"sync"
	"time"
)

// A health records what does not work at present, by subject. Each line is reported
// once when it first applies to any subject, and once when it no longer applies to any,
// however often the causes alternate in between.
type health struct {
	mu      sync.Mutex
	bad     map[string]illness // by subject
	changed func(string, bool)
}

// An illness holds the lines that applied to a subject since it last worked.
type illness struct {
	lines []string // the latest one last
	seen  time.Time
}

// calm is how long a subject must go without a failure before a success counts as
// recovery: a Redis at the limit of its memory refuses one write and takes the next.
const calm = 2 * time.Second

// fail records what is wrong with subject.
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

// improve records that subject worked once, and tells whether it has recovered.
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

// mend records that subject has recovered.
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

// said tells whether line applies to any subject.
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

// lines lists the latest line of each subject, without duplicates: several uses may
// suffer from one Redis.
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
