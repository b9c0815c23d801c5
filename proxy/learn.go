package proxy

import (
	"net/http"
	"slices"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
	"sidenote/proxy/usage"
)

// The bounds of learning how upstreams count tokens.
const (
	maxLearned  = 256 << 10 // bytes of a request's body; larger ones are not sampled
	maxLearners = 2         // samples whose tokens are counted at once
	maxSamples  = 64        // samples that wait for the end of their answers
)

// A sample is the body of a request as it was sent, and a reader of the token count in
// its answer. Samples are pooled.
type sample struct {
	body     []byte
	usage    *usage.Reader
	broken   bool // usage panicked: the answer goes on, but nothing is learnt from it
	panicked panics.Handler
}

// tap reads the next piece of the answer.
func (m *sample) tap(piece []byte) {
	if m.broken {
		return
	}
	defer panics.Recover(m.panicked, func() { m.broken = true })
	m.usage.Write(piece)
}

// takeSample copies the request and reads its answer as it passes, so that learn can
// compare the tokens billed with those counted. It does not change the answer.
func (x *exchange) takeSample(resp *transport.Answer, how *transport.Relay) {
	if resp.Status() != http.StatusOK || size(x.outgoing) > maxLearned {
		return
	}
	if x.server.samples.Add(1) > maxSamples {
		x.server.samples.Add(-1)
		return
	}
	m, _ := x.server.samplePool.Get().(*sample)
	if m == nil {
		m = new(sample)
	}
	m.body = slices.Grow(m.body[:0], size(x.outgoing))
	for _, p := range x.outgoing {
		m.body = append(m.body, p...)
	}
	m.usage = usage.NewReader(string(resp.Header("Content-Encoding")))
	m.panicked = x.panicked
	x.sample, how.Tap = m, m.tap
}

// recycle puts a sample back into the pool.
func (s *Server) recycle(m *sample) {
	transport.Poison(m.body)
	*m = sample{body: m.body}
	s.samplePool.Put(m)
}

// size is the number of bytes of a body in pieces.
func size(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// learn compares the tokens that were billed with those that we count, in a goroutine
// of its own. If maxLearners of these run already, it does nothing.
func (x *exchange) learn() {
	s := x.server
	if x.sample == nil {
		return
	}
	s.samples.Add(-1)
	if x.sample.broken {
		s.recycle(x.sample)
		return
	}
	select {
	case s.learners <- struct{}{}:
	default:
		s.metrics.Shed("calibration")
		s.recycle(x.sample)
		return
	}
	s.work.Add(1)
	from, tenant, upstream, id := x.sample, x.report.Tenant, x.report.Upstream, x.report.ID
	logPanic := func(value any, stack []byte) { s.bug(id, value, stack) } // by then x may be another request's
	panics.Go(logPanic, func() {
		s.learnFrom(tenant, upstream, from)
		s.recycle(from)
	}, func() {
		<-s.learners
		s.work.Done()
	})
}

func (s *Server) learnFrom(tenant, upstream string, from *sample) {
	billed, finding := from.usage.PromptTokens()
	switch finding {
	case usage.Found:
	case usage.Absent:
		return
	default:
		s.metrics.UsageIgnored(upstream, string(finding))
		return
	}
	m, err := s.rewriter.Learn(tenant, upstream, from.body, billed)
	switch {
	case err != nil:
		panic("BUG: a request that was rewritten cannot be read: " + err.Error())
	case m.Absurd:
		s.metrics.UsageIgnored(upstream, "absurd")
	case m.Value.Ratio > 0:
		s.metrics.Calibrated(upstream, m.Row, m.Value.Ratio, m.Value.Offset)
	}
}
