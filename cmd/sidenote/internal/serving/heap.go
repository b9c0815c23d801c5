package serving

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// most is the largest growth of the heap, in percent of its live part. Otherwise a live part
	// of some tens of MiB, mostly vocabularies, would be collected so often that requests slow
	// down.
	most = 300
	// enough is the heap size, in bytes, up to which it may grow by more than least. With the
	// program and the runtime, a process with one full cache of 64 MiB stays under 200 MB.
	enough = 128 << 20
	// least is the growth that is always allowed, in percent, as marking a large live part takes
	// long.
	least = 20
)

// percent returns the growth of the heap until the next collection, in percent of its live part,
// which is given in bytes.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	room := int64(enough) - int64(min(live, enough))
	return int(min(max(room*100/int64(live), least), most))
}

// Pace sets the GC percentage after each collection until the process ends; call it once. paced,
// unless nil, gets the percentage each time and must not block. A memory limit (GOMEMLIMIT)
// applies as well.
func Pace(paced func(percent int)) {
	debug.SetGCPercent(most)
	p := &pacer{paced: paced, last: most}
	p.arm()
}

// A pacer runs after each collection, as the finalizer of an unreachable object.
type pacer struct {
	paced func(int)
	last  int
}

// A mark holds a pointer, so that it is not batched with other tiny allocations.
type mark struct{ of *pacer }

func (p *pacer) arm() { runtime.SetFinalizer(&mark{p}, func(m *mark) { m.of.collected() }) }

func (p *pacer) collected() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	to := percent(sample[0].Value.Uint64())
	// Setting it stops the process for some microseconds, so small changes are ignored.
	if to != p.last && (to == most || to == least || 10*abs(to-p.last) > p.last) {
		debug.SetGCPercent(to)
		p.last = to
	}
	if p.paced != nil {
		p.paced(p.last)
	}
	p.arm()
}

func abs(n int) int { return max(n, -n) }
