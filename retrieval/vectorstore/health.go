package vectorstore

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A health is what does not work at present. Searches weigh more than looks at
// the store's state: they are what requests need, and some APIs have nothing else.
type health struct {
	subject string
	every   time.Duration
	changed func(line string, bad bool)

	mu       sync.Mutex
	search   error // of the last search
	searchAt time.Time
	works    bool  // the last search did
	look     error // of the last look
	line     string
	standing []string // what an API cannot do, a line each
}

// searched notes how a search ended.
func (h *health) searched(err error) {
	h.note(err, func(now time.Time) {
		h.search, h.searchAt, h.works = err, now, err == nil
		if err == nil {
			h.look = nil
		}
	})
}

// looked notes how a look ended. One that worked forgives a search that failed a
// while ago: perhaps nobody searches any more.
func (h *health) looked(err error) {
	h.note(err, func(now time.Time) {
		h.look = err
		if h.works && untold(err) {
			h.look = nil
		}
		if err == nil && now.Sub(h.searchAt) >= h.every {
			h.search = nil
		}
	})
}

// untold tells that a store does not tell its state.
func untold(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status == http.StatusNotImplemented)
}

// badRequest tells that an API takes no such request.
func badRequest(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.status == http.StatusBadRequest || e.status == http.StatusUnprocessableEntity)
}

// note changes what is known and tells whoever wants to know. That a caller left
// says nothing of the store.
func (h *health) note(err error, change func(now time.Time)) {
	if errors.Is(err, context.Canceled) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	change(time.Now())
	line := ""
	switch {
	case h.search != nil:
		line = h.subject + ": " + h.search.Error()
	case h.look != nil:
		line = h.subject + ": " + h.look.Error()
	}
	before := h.line
	h.line = line
	switch {
	case h.changed == nil || line == before:
	case line != "":
		h.changed(line, true)
	default:
		h.changed(before, false)
	}
}

// What an API cannot do with filters.
const (
	strays  = "does not keep to filters, or tells no attributes; what a filter does not choose by them is not used"
	refuses = "does not take a filter that it was asked under; a search under it finds nothing"
)

// cannot notes what an API cannot do. It is told once and never over: a search that
// works proves nothing, and requests bring filters of their own, which must not
// fill the log.
func (h *health) cannot(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.subject + ": " + what
	if slices.Contains(h.standing, line) {
		return
	}
	h.standing = append(h.standing, line)
	if h.changed != nil {
		h.changed(line, true)
	}
}

func (h *health) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := slices.Clone(h.standing)
	if h.line != "" {
		lines = append(lines, h.line)
	}
	return lines
}
