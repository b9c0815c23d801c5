package redis

import (
	"slices"
	"sync"
	"time"
)

// A health records the current problems by subject. Each line is reported once when it begins to
// apply to any subject, and once when it no longer applies to any, however often the causes
// alternate in between.
type health struct {
	mu       sync.Mutex
	problems map[string]problem // by subject
	changed  func(string, bool)
}

// A problem holds the lines that applied to a subject since it last worked.
type problem struct {
	lines []string // the latest one last
	seen  time.Time
}

// recoveryTime is how long a subject must go without a failure before a success counts as
// recovery: a Redis at its memory limit refuses one write and accepts the next.
const recoveryTime = 2 * time.Second

// fail records what is wrong with subject.
func (h *health) fail(subject, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.problems[subject]
	known := h.applies(line)
	p.lines = append(slices.DeleteFunc(p.lines, func(l string) bool { return l == line }), line)
	p.seen = time.Now()
	if h.problems == nil {
		h.problems = map[string]problem{}
	}
	h.problems[subject] = p
	if !known {
		h.report(line, true)
	}
}

// worked records a success of subject, and reports whether it has recovered.
func (h *health) worked(subject string) (well bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, bad := h.problems[subject]
	if bad && time.Since(p.seen) < recoveryTime {
		return false
	}
	h.end(subject)
	return true
}

// clear records that subject has recovered.
func (h *health) clear(subject string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(subject)
}

// set records whether line applies to subject.
func (h *health) set(subject, line string, applies bool) {
	if applies {
		h.fail(subject, line)
	} else {
		h.clear(subject)
	}
}

func (h *health) end(subject string) {
	lines := h.problems[subject].lines
	delete(h.problems, subject)
	for _, line := range lines {
		if !h.applies(line) {
			h.report(line, false)
		}
	}
}

// applies reports whether line applies to any subject.
func (h *health) applies(line string) bool {
	for _, p := range h.problems {
		if slices.Contains(p.lines, line) {
			return true
		}
	}
	return false
}

func (h *health) report(line string, bad bool) {
	if h.changed != nil {
		h.changed(line, bad)
	}
}

// lines returns the latest line of each subject, without duplicates: several uses may have the
// same problem.
func (h *health) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, p := range h.problems {
		lines = append(lines, p.lines[len(p.lines)-1])
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
