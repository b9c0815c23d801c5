package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// Each kind of state folder error has its own refusal, which names the cause.
func TestRefusals(t *testing.T) {
	warned := 0
	m := &manager{monitor: Monitor{Log: func(slog.Level, string) { warned++ }}}
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{store.ErrNotFound, 404, `no knowledge base "kb"`},
		{store.ErrReadOnly, 409, "reading only"},
		{fmt.Errorf("put: %w: /state/knowledge.db", store.ErrFull), 507, "Put: no space left for the state folder: /state/knowledge.db. What was there before is as it was."},
		{&store.CorruptError{Path: "/state/knowledge.db", Err: errors.New("page 7")}, 500, "/state/knowledge.db is damaged: page 7"},
		{&store.SegmentError{Base: "kb", Name: "a.shelf", Err: errors.New("checksum")}, 500, "a.shelf"},
		{&store.ForeignError{Path: "/state/knowledge.db", Reason: "is not a database"}, 500, "/state/knowledge.db is not a database"},
		{fmt.Errorf("change: %w", context.DeadlineExceeded), 503, "try again"},
		{library.ErrClosed, 503, "being stopped"},
		{errors.New("odd"), 500, "Odd."},
	} {
		var r *admin.Refusal
		if got := m.refusal("kb", c.err); !errors.As(got, &r) || r.Status != c.status || !strings.Contains(r.Message, c.text) || !errors.Is(got, c.err) {
			t.Errorf("%v: %+v; want %d %s", c.err, got, c.status, c.text)
		}
	}
	if warned != 4 {
		t.Errorf("%d of them were told to the log, want what somebody has to look at: 4", warned)
	}
	if err := m.refusal("kb", nil); err != nil {
		t.Error(err)
	}
}
