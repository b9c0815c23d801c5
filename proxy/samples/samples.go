// Package samples keeps copies of requests as they were sent until their answers report the billed
// tokens, to compare them with our own count.
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
	work    *sync.WaitGroup // counts running comparisons
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

// Take copies the pieces of a body. It returns nil if the body is too large or too many samples wait.
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

// Drop discards a sample. It does nothing if m is nil.
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

// Read calls compare with the body in a new goroutine, then discards the sample; compare must not
// keep the body. If too many reads are running, it discards the sample and returns false.
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

// Kept returns the number of waiting samples.
func (k *Keeper) Kept() int64 { return k.kept.Load() }

// Reading reports whether a sample is being read.
func (k *Keeper) Reading() bool { return len(k.reading) > 0 }
