package services

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Health is the account of what does not work at present. Calls weigh more than looks at
// the state of a service: they are what requests need, and some services have nothing else.
type Health struct {
	Subject string                      // of each line
	Every   time.Duration               // between two looks
	Changed func(line string, bad bool) // is told when a line begins to hold and when it ends; nil for nobody

	mu       sync.Mutex
	call     error // of the last call
	calledAt time.Time
	works    bool  // the last call did
	look     error // of the last look
	line     string
	standing []string // what the service cannot do, a line each
	answered bool     // see Answered
}

// Called notes how a call ended.
func (h *Health) Called(err error) {
	h.note(err, func(now time.Time) {
		h.call, h.calledAt, h.works = err, now, err == nil
		if err == nil {
			h.look, h.answered = nil, true
		}
	})
}

// Looked notes how a look ended. A look that worked clears a call that failed a while
// ago: perhaps nobody calls any more.
func (h *Health) Looked(err error) {
	h.note(err, func(now time.Time) {
		h.look = err
		h.answered = h.answered || err == nil || noState(err)
		if h.works && noState(err) {
			h.look = nil
		}
		if err == nil && now.Sub(h.calledAt) >= h.Every {
			h.call = nil
		}
	})
}

// noState tells that a service has no way to tell its state.
func noState(err error) bool {
	var e *StatusError
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented)
}

// note changes what is known, and calls Changed if the line is another one. That a caller
// left says nothing of the service.
func (h *Health) note(err error, change func(now time.Time)) {
	if errors.Is(err, context.Canceled) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	change(time.Now())
	line := ""
	switch {
	case h.call != nil:
		line = h.Subject + ": " + h.call.Error()
	case h.look != nil:
		line = h.Subject + ": " + h.look.Error()
	}
	before := h.line
	h.line = line
	switch {
	case h.Changed == nil || line == before:
	case line != "":
		h.Changed(line, true)
	default:
		h.Changed(before, false)
	}
}

// Cannot notes what a service cannot do. It is told once and holds for good: a call that
// works proves nothing, and every request may bring the trouble again, which must not
// fill the log.
func (h *Health) Cannot(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.Subject + ": " + what
	if slices.Contains(h.standing, line) {
		return
	}
	h.standing = append(h.standing, line)
	if h.Changed != nil {
		h.Changed(line, true)
	}
}

// Answered reports whether a call or a look has ever worked. A service that has no way to tell its
// state has answered when it said so.
func (h *Health) Answered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered
}

// Lines returns what does not work at present, a line each.
func (h *Health) Lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := slices.Clone(h.standing)
	if h.line != "" {
		lines = append(lines, h.line)
	}
	return lines
}
