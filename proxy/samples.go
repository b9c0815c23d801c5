package proxy

import (
	"slices"
	"sync"
	"sync/atomic"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// Limits of sampling.
const (
	maxSize  = 256 << 10 // bytes of a request's body; larger ones are not sampled
	maxReads = 2         // samples whose tokens are counted at once
	maxKept  = 64        // samples that wait for the end of their answers
)

// Samples holds the samples of requests. It is safe for concurrent use.
type Samples struct {
	work    *sync.WaitGroup // counts running comparisons
	reading chan struct{}
	kept    atomic.Int64
	pool    sync.Pool // of *sample
}

// newSamples returns Samples that count running comparisons in work.
func newSamples(work *sync.WaitGroup) *Samples {
	return &Samples{work: work, reading: make(chan struct{}, maxReads)}
}

// A sample is the body of a request as it was sent.
type sample struct {
	of   *Samples
	body []byte
}

// Take copies the pieces of a body. It returns nil if the body is too large or too many samples wait.
func (k *Samples) Take(pieces [][]byte) *sample {
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
	m, _ := k.pool.Get().(*sample)
	if m == nil {
		m = &sample{of: k}
	}
	m.body = slices.Grow(m.body[:0], size)
	for _, p := range pieces {
		m.body = append(m.body, p...)
	}
	return m
}

// Drop discards a sample. It does nothing if m is nil.
func (m *sample) Drop() {
	if m != nil {
		m.of.kept.Add(-1)
		m.recycle()
	}
}

func (m *sample) recycle() {
	transport.PoisonBuffer(m.body)
	m.of.pool.Put(m)
}

// Read calls compare with the body in a new goroutine, then discards the sample; compare must not
// keep the body. If too many reads are running, it discards the sample and returns false.
func (m *sample) Read(panicked panics.Handler, compare func(body []byte)) bool {
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
func (k *Samples) Kept() int64 { return k.kept.Load() }

// Reading reports whether a sample is being read.
func (k *Samples) Reading() bool { return len(k.reading) > 0 }
