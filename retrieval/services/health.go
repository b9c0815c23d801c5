package services

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Health tracks what does not work at present. Calls count more than state checks ("looks"):
// they are what requests need, and some services offer no state.
type Health struct {
	Subject string                      // prefix of each line
	Every   time.Duration               // interval of looks
	Changed func(line string, bad bool) // called when a line starts to hold, and when it ends; may be nil

	mu       sync.Mutex
	call     error // of the last call
	calledAt time.Time
	works    bool  // the last call worked
	look     error // of the last look
	line     string
	standing []string // what the service cannot do, a line each
	answered bool     // see Answered
}

// Called records the outcome of a call.
func (h *Health) Called(err error) {
	h.note(err, func(now time.Time) {
		h.call, h.calledAt, h.works = err, now, err == nil
		if err == nil {
			h.look, h.answered = nil, true
		}
	})
}

// Looked records the outcome of a look. A successful look clears an older failure of a call, since
// there may be no further calls.
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

// noState reports whether a service does not offer its state.
func noState(err error) bool {
	var e *StatusError
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented)
}

// note applies change, and calls Changed if the line differs. Calls canceled by the caller are
// ignored.
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

// Cannot records what a service cannot do. It is reported once and never cleared: a call that
// works proves nothing, and repeating it for every request would fill the log.
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

// Answered reports whether a call or a look has ever worked. A service that says that it offers no
// state has answered.
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
