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
	// keptShare: one keptShare-th of the limit is left to requests, and to what the runtime
	// takes beside objects.
	keptShare = 8
	// segmentShare: making a segment of an index may take one segmentShare-th of the limit.
	segmentShare = 8
)

// ErrNoRoom is the error for more memory than there is, although nobody else reads.
var ErrNoRoom = errors.New("too little memory")

// A Room shares out memory. Its limit is the runtime's memory limit: GOMEMLIMIT, or what the
// process derived from its container. Without a limit everything is granted at once.
//
// A Room is safe for concurrent use. The nil Room has no limit.
type Room struct {
	first chan struct{} // held by the one who waits for memory; others wait behind it

	mu      sync.Mutex
	taken   int64         // by grants
	outside int64         // part of taken that the runtime does not count
	freed   chan struct{} // is closed when a grant ends
}

// NewRoom returns a Room of the whole process. A process needs one at most.
func NewRoom() *Room { return &Room{first: make(chan struct{}, 1), freed: make(chan struct{})} }

// limit returns the memory limit, MaxInt64 for none. The caller holds mu.
func (r *Room) limit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit >= math.MaxInt64-r.outside {
		return math.MaxInt64
	}
	return limit + r.outside
}

// Limited reports whether there is a limit.
func (r *Room) Limited() bool { return r.share(1) < math.MaxInt64 }

// share returns a part of the limit, MaxInt64 if there is none.
func (r *Room) share(part int64) int64 {
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

// Segment returns how much memory making one segment of an index may take, MaxInt64 for any.
func (r *Room) Segment() int64 { return r.share(segmentShare) }

// free returns how much memory is neither used nor granted. What a holder of a grant uses
// counts twice, so it is never too much. The caller holds mu.
func (r *Room) free() int64 {
	limit := r.limit()
	if limit == math.MaxInt64 {
		return limit
	}
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(used)
	return limit - limit/keptShare - r.taken - int64(used[0].Value.Uint64()) //nolint:gosec // it is less than memory has bytes
}

// Free returns how much memory is neither used nor granted, MaxInt64 if there is no limit.
func (r *Room) Free() int64 {
	if r == nil {
		return math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.free())
}

// Take waits until at least so many bytes are free and returns a grant of most bytes, or of
// all that are free. The caller must hold no other grant. The error is ErrNone, wrapped, if
// there are not so many while nobody else holds any, or that of ctx.
func (r *Room) Take(ctx context.Context, least, most int64) (*Grant, error) {
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
		if free < most { // part of what is used may be garbage
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
			return nil, fmt.Errorf("%w: %d MB are free of %d MB that it takes", ErrNoRoom, max(0, free)>>20, least>>20)
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Return gives memory that was used back to the system, which keeps pages of files in it. It
// does nothing without a limit.
func (r *Room) Return() {
	if r.Limited() {
		debug.FreeOSMemory()
	}
}

// A Grant is memory that its holder may use.
type Grant struct {
	Bytes int64 // how much; not to be changed

	room    *Room
	outside int64
}

// Outside says that so much of the grant is now used by what the runtime does not count,
// such as another process: the runtime's limit is lowered by it. Zero ends that.
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
