package main

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// goShare is how much of a container's memory Go may use, in percent: the rest is
	// for what it does not count.
	goShare = 90
	// fullShare is from how much live memory on, in percent of what Go may use, no
	// request is taken: beyond, the collector would hardly do anything but run.
	fullShare = 85
	// memoryEvery is how often that is looked at.
	memoryEvery = 100 * time.Millisecond
)

// limitMemory lets Go use a share of what the container may use, unless GOMEMLIMIT
// says otherwise.
func limitMemory() {
	if memoryLimit() > 0 {
		return
	}
	container, err := memlimit.FromCgroup()
	if err != nil || container > math.MaxInt64/goShare {
		return // none, or a number that means none
	}
	debug.SetMemoryLimit(int64(container / 100 * goShare)) //nolint:gosec // it is less than the largest
}

// memoryLimit returns how many bytes Go may use; 0 is no limit.
func memoryLimit() uint64 {
	limit := debug.SetMemoryLimit(-1) // which only looks
	if limit <= 0 || limit == math.MaxInt64 {
		return 0
	}
	return uint64(limit)
}

// A memory knows whether the process is about to use all that it may.
type memory struct {
	limit uint64 // bytes; 0 is none
	full  atomic.Bool
}

// watch looks now and then until ctx ends.
func (m *memory) watch(ctx context.Context) {
	if m.limit == 0 {
		return
	}
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for {
		m.look()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look compares what the last collection left, and stacks, with the limit. What is
// garbage already does not count: there may be a lot of it, and it may go.
func (m *memory) look() {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	var live uint64
	for _, s := range samples {
		live += s.Value.Uint64()
	}
	m.full.Store(live > m.limit/100*fullShare)
}
