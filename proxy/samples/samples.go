// Package samples keeps copies of requests as they were sent until their answers tell what was
// billed for them, so that this can be compared with what was counted.
package samples

import (
	"slices"
	"sync"
	"sync/atomic"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// The bounds of what is kept and compared.
const (
	maxSize  = 256 << 10 // bytes of a request's body; larger ones are not sampled
	maxReads = 2         // samples whose tokens are counted at once
	maxKept  = 64        // samples that wait for the end of their answers
)

// A Keeper keeps samples. It is safe for concurrent use.
type Keeper struct {
	work    *sync.WaitGroup // is told of each comparison
	reading chan struct{}
	kept    atomic.Int64
	pool    sync.Pool // of *Sample
}

// New returns a Keeper.
func New(work *sync.WaitGroup) *Keeper {
	return &Keeper{work: work, reading: make(chan struct{}, maxReads)}
}

// A Sample is the body of a request as it was sent.
type Sample struct {
	of   *Keeper
	body []byte
}

// Take copies the pieces of a body; nil if it is too large, or too many wait.
func (k *Keeper) Take(pieces [][]byte) *Sample {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if size > maxSize {
		return nil
	}
	if k.kept.Add(1) > maxKept {
		k.kept.Add(-1)
		return nil
	}
	m, _ := k.pool.Get().(*Sample)
	if m == nil {
		m = &Sample{of: k}
	}
	m.body = slices.Grow(m.body[:0], size)
	for _, p := range pieces {
		m.body = append(m.body, p...)
	}
	return m
}

// Drop gives a sample up. It does nothing if m is nil.
func (m *Sample) Drop() {
	if m != nil {
		m.of.kept.Add(-1)
		m.recycle()
	}
}

func (m *Sample) recycle() {
	transport.Buffer(m.body)
	m.of.pool.Put(m)
}

// Read lets compare read the body, which it must not keep, in a goroutine of its own, and gives the
// sample up. It returns false, having given it up, if too many are read already.
func (m *Sample) Read(panicked panics.Handler, compare func(body []byte)) bool {
	k := m.of
	k.kept.Add(-1)
	select {
	case k.reading <- struct{}{}:
	default:
		m.recycle()
		return false
	}
	k.work.Add(1)
	panics.Go(panicked, func() {
		compare(m.body)
		m.recycle()
	}, func() {
		<-k.reading
		k.work.Done()
	})
	return true
}

// Kept returns how many samples wait.
func (k *Keeper) Kept() int64 { return k.kept.Load() }

// Reading tells whether a sample is being read.
func (k *Keeper) Reading() bool { return len(k.reading) > 0 }
