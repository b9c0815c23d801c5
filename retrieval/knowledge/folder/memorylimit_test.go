package folder_test

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"sidenote/retrieval/knowledge/folder"
)

// limited sets the memory limit of the process for a test.
func limited(t *testing.T, limit int64) {
	before := debug.SetMemoryLimit(limit)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

// Without a limit everything is granted.
func TestNoLimit(t *testing.T) {
	limited(t, math.MaxInt64)
	for _, r := range []*folder.MemoryLimit{nil, folder.NewMemoryLimit()} {
		a, err := r.Take(t.Context(), 1<<50, 1<<51)
		b, also := r.Take(t.Context(), 1<<50, 1<<51)
		if err != nil || also != nil || a.Bytes != 1<<51 || b.Bytes != 1<<51 || r.Limited() || r.Free() < 1<<51 || r.Segment() < 1<<51 {
			t.Errorf("%v, %v, limited %t", err, also, r.Limited())
		}
		a.Outside(1 << 40)
		a.Release()
		b.Release()
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("then the limit is %d", limit)
	}
}

// The sum of grants stays below the limit: requests for more wait, and requests that can never be
// granted fail.
func TestTake(t *testing.T) {
	const limit = 1 << 30
	limited(t, limit)
	r := folder.NewMemoryLimit()
	if _, err := r.Take(t.Context(), limit, limit); !errors.Is(err, folder.ErrNotEnoughMemory) {
		t.Errorf("all of it: %v", err)
	}
	first, err := r.Take(t.Context(), limit/2, limit)
	if err != nil || first.Bytes < limit/2 || first.Bytes > limit-limit/8 {
		t.Fatalf("%v, %v", first, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Take(ended, limit/2, limit/2); !errors.Is(err, context.Canceled) {
		t.Errorf("beside another: %v", err)
	}
	granted := make(chan error)
	go func() {
		second, err := r.Take(t.Context(), limit/2, limit/2)
		if err == nil {
			defer second.Release()
		}
		granted <- err
	}()
	select {
	case err := <-granted:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	first.Release()
	if err := <-granted; err != nil {
		t.Error(err)
	}
}

// Memory used by another process lowers the runtime's limit as long as it is used, and the limit
// of the Room stays the same.
func TestOutside(t *testing.T) {
	const limit = 1 << 30
	limited(t, limit)
	r := folder.NewMemoryLimit()
	segment := r.Segment()
	g, err := r.Take(t.Context(), limit/2, limit/2)
	if err != nil {
		t.Fatal(err)
	}
	g.Outside(limit / 4)
	if now := debug.SetMemoryLimit(-1); now != limit-limit/4 || r.Segment() != segment {
		t.Errorf("the limit is %d, a segment may have %d of %d", now, r.Segment(), segment)
	}
	g.Outside(limit / 8)
	if now := debug.SetMemoryLimit(-1); now != limit-limit/8 {
		t.Errorf("the limit is %d", now)
	}
	g.Release()
	if now := debug.SetMemoryLimit(-1); now != limit {
		t.Errorf("then the limit is %d", now)
	}
}
