package proxy

import (
	"slices"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/poison"
)

// The bounds of learning how upstreams count tokens.
const (
	maxLearned  = 256 << 10 // bytes of a request's body; larger ones are not sampled
	maxLearners = 2         // samples whose tokens are counted at once
	maxSamples  = 64        // samples that wait for the end of their answers
)

// A sample is the body of a request as it was sent. Samples are pooled.
type sample struct{ body []byte }

// takeSample copies the request, so that learn can compare the tokens billed with those
// counted.
func (a *account) takeSample(body [][]byte) {
	if size(body) > maxLearned {
		return
	}
	if a.server.samples.Add(1) > maxSamples {
		a.server.samples.Add(-1)
		return
	}
	m, _ := a.server.samplePool.Get().(*sample)
	if m == nil {
		m = new(sample)
	}
	m.body = slices.Grow(m.body[:0], size(body))
	for _, p := range body {
		m.body = append(m.body, p...)
	}
	a.sample = m
}

// recycle puts a sample back into the pool.
func (s *Server) recycle(m *sample) {
	poison.Buffer(m.body)
	s.samplePool.Put(m)
}

// size is the number of bytes of a body in pieces.
func size(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// learn compares the tokens that were billed for the prompt, 0 if that is not known, with
// those that we count, in a goroutine of its own. If maxLearners of these run already, it
// does not.
func (a *account) learn(billed int) {
	s, from := a.server, a.sample
	if from == nil {
		return
	}
	s.samples.Add(-1)
	if billed == 0 {
		s.recycle(from)
		return
	}
	select {
	case s.learners <- struct{}{}:
	default:
		s.metrics.Shed("calibration")
		s.recycle(from)
		return
	}
	s.work.Add(1)
	tenant, upstream, id := a.report.Tenant, a.report.Upstream, a.report.ID
	logPanic := func(value any, stack []byte) { s.bug(id, value, stack) } // by then a may be another request's
	panics.Go(logPanic, func() {
		s.learnFrom(tenant, upstream, from.body, billed)
		s.recycle(from)
	}, func() {
		<-s.learners
		s.work.Done()
	})
}

func (s *Server) learnFrom(tenant, upstream string, body []byte, billed int) {
	m, err := s.setup.Load().rewriter.Learn(tenant, upstream, body, billed)
	switch {
	case err != nil:
		panic("BUG: a request that was rewritten cannot be read: " + err.Error())
	case m.Absurd:
		s.metrics.UsageIgnored(upstream, "absurd")
	case m.Value.Ratio > 0:
		s.metrics.Calibrated(upstream, m.Row, m.Value.Ratio, m.Value.Offset)
	}
}
