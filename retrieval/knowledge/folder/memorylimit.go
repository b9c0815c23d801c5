package folder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// 1/keptShare of the limit is left to requests and to what the runtime uses beside objects.
	keptShare = 8
	// 1/segmentShare of the limit may be used to make a segment of an index.
	segmentShare = 8
)

// ErrNotEnoughMemory is returned if more memory is requested than is available without other
// readers.
var ErrNotEnoughMemory = errors.New("too little memory")

// A MemoryLimit distributes memory. Its limit is the runtime's memory limit: GOMEMLIMIT, or what
// the process derived from its container. Without a limit every request is granted at once.
//
// A MemoryLimit is safe for concurrent use. A nil MemoryLimit has no limit.
type MemoryLimit struct {
	first chan struct{} // held by the caller that waits for memory; others queue behind it

	mu      sync.Mutex
	taken   int64         // granted memory
	outside int64         // part of taken that the runtime does not count
	freed   chan struct{} // closed when a grant ends
}

// NewMemoryLimit returns a MemoryLimit of the whole process. A process needs one at most.
func NewMemoryLimit() *MemoryLimit {
	return &MemoryLimit{first: make(chan struct{}, 1), freed: make(chan struct{})}
}

// limit returns the memory limit, MaxInt64 for none. The caller holds mu.
func (r *MemoryLimit) limit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit >= math.MaxInt64-r.outside {
		return math.MaxInt64
	}
	return limit + r.outside
}

// Limited reports whether there is a limit.
func (r *MemoryLimit) Limited() bool { return r.share(1) < math.MaxInt64 }

// share returns 1/part of the limit, MaxInt64 if there is none.
func (r *MemoryLimit) share(part int64) int64 {
	if r == nil {
		return math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.limit()
	if limit == math.MaxInt64 {
		return limit
	}
	return limit / part
}

// Segment returns the memory that making one segment of an index may take, MaxInt64 for no limit.
func (r *MemoryLimit) Segment() int64 { return r.share(segmentShare) }

// free returns the memory that is neither used nor granted. It never returns too much, because
// what a holder of a grant uses counts twice. The caller must hold mu.
func (r *MemoryLimit) free() int64 {
	limit := r.limit()
	if limit == math.MaxInt64 {
		return limit
	}
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(used)
	return limit - limit/keptShare - r.taken - int64(used[0].Value.Uint64()) //nolint:gosec // it is less than memory has bytes
}

// Free returns the memory that is neither used nor granted, MaxInt64 if there is no limit.
func (r *MemoryLimit) Free() int64 {
	if r == nil {
		return math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.free())
}

// Take waits until at least least bytes are free and returns a grant of up to most bytes. The
// caller must hold no other grant. It returns an error wrapping ErrNotEnoughMemory if too little is
// free although nobody else holds a grant, or the error of ctx.
func (r *MemoryLimit) Take(ctx context.Context, least, most int64) (*Grant, error) {
	if r == nil {
		return &Grant{Bytes: most}, nil
	}
	select {
	case r.first <- struct{}{}:
		defer func() { <-r.first }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		r.mu.Lock()
		free := r.free()
		if free < most { // some of the used memory may be garbage
			r.mu.Unlock()
			runtime.GC()
			r.mu.Lock()
			free = r.free()
		}
		if free >= least {
			g := &Grant{room: r, Bytes: min(most, free)}
			r.taken += g.Bytes
			r.mu.Unlock()
			return g, nil
		}
		alone, freed := r.taken == 0, r.freed
		r.mu.Unlock()
		if alone {
			return nil, fmt.Errorf("%w: it needs %d MB and %d MB are free", ErrNotEnoughMemory, least>>20, max(0, free)>>20)
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Return returns unused memory to the system, which uses it to cache files. It does nothing
// without a limit.
func (r *MemoryLimit) Return() {
	if r.Limited() {
		debug.FreeOSMemory()
	}
}

// A Grant is memory that its holder may use.
type Grant struct {
	Bytes int64 // its size; must not be changed

	room    *MemoryLimit
	outside int64
}

// Outside sets how much of the grant is used outside the runtime, for example by a child process.
// The runtime's limit is lowered by that. Zero ends it.
func (g *Grant) Outside(bytes int64) {
	if g.room == nil {
		return
	}
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	limit := g.room.limit()
	g.room.outside += bytes - g.outside
	g.outside = bytes
	if limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit - g.room.outside)
	}
}

// Release ends the grant.
func (g *Grant) Release() {
	g.Outside(0)
	if g.room == nil {
		return
	}
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	g.room.taken -= g.Bytes
	close(g.room.freed)
	g.room.freed = make(chan struct{})
}
