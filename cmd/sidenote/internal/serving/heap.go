package serving

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// most is what the heap may grow to, in percent of its live part, and more. A live part of
	// some tens of MiB, mostly vocabularies, would else be collected so often that requests
	// pay for it.
	most = 300
	// enough is the size, in bytes, that the heap grows to at most in this way: with the
	// program and the runtime a process of one full cache of 64 MiB stays under 200 MB.
	enough = 128 << 20
	// least is what the heap may always grow by, in percent: a large live part takes long to
	// go through.
	least = 20
)

// percent returns by how much the heap may grow until it is collected again, in percent of
// its live part, in bytes.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	room := int64(enough) - int64(min(live, enough))
	return int(min(max(room*100/int64(live), least), most))
}

// Pace sets, after each collection, when the next one comes. paced, unless nil, is told the
// percentage each time, by a goroutine that it must not hold up. Pace goes on until the process
// ends; call it once. A memory limit (GOMEMLIMIT) holds besides.
func Pace(paced func(percent int)) {
	debug.SetGCPercent(most)
	p := &pacer{paced: paced, last: most}
	p.arm()
}

// A pacer runs after each collection: as the finalizer of an object that nothing holds.
type pacer struct {
	paced func(int)
	last  int
}

// A mark has a pointer, so that it is an allocation of its own.
type mark struct{ of *pacer }

func (p *pacer) arm() { runtime.SetFinalizer(&mark{p}, func(m *mark) { m.of.collected() }) }

func (p *pacer) collected() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	to := percent(sample[0].Value.Uint64())
	// To set it stops the process for some microseconds, so small changes are left alone.
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
