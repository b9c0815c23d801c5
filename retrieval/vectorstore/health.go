package vectorstore

import (
	"context"
	"errors"
	"net/http"
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
	strayed  string // once an answer left the filter that it was asked under, the line that says so
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

// unfiltered notes that an answer had results which were dropped for a filter. It is
// told once and never over: an answer that has none proves nothing.
func (h *health) unfiltered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.strayed != "" {
		return
	}
	h.strayed = h.subject + ": does not keep to filters, or tells no attributes; what a filter does not choose by them is not used"
	if h.changed != nil {
		h.changed(h.strayed, true)
	}
}

func (h *health) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, line := range []string{h.line, h.strayed} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
