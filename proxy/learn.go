package proxy

import (
	"net/http"
	"slices"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
	"sidenote/proxy/usage"
)

// What learning from answers may cost.
const (
	maxLearned  = 256 << 10 // bytes of a request that is learnt from
	maxLearners = 2         // requests that are counted at once
	maxSamples  = 64        // requests that wait for the end of their answers
)

// A sample is a request as it went up, and what its answer says of its tokens. Its
// memory is used again.
type sample struct {
	body     []byte
	usage    *usage.Reader
	broken   bool // by a panic: the answer goes on, but nothing is learnt
	panicked panics.Handler
}

// tap takes the next piece of the answer.
func (m *sample) tap(piece []byte) {
	if m.broken {
		return
	}
	defer panics.Recover(m.panicked, func() { m.broken = true })
	m.usage.Write(piece)
}

// listen lets the answer to a request, one of a sample, tell what was billed for
// it. The answer passes as it would without.
func (x *exchange) listen(resp *transport.Response, how *transport.Relay) {
	if resp.Status() != http.StatusOK || size(x.plain) > maxLearned {
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
	m.body = slices.Grow(m.body[:0], size(x.plain))
	for _, p := range x.plain {
		m.body = append(m.body, p...)
	}
	m.usage = usage.NewReader(string(resp.Header("Content-Encoding")))
	m.panicked = x.panicked
	x.sample, how.Tap = m, m.tap
}

// forget gives a sample's memory to another one.
func (s *Server) forget(m *sample) {
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

// learn compares what was billed with what is counted, beside the data path. There
// is a bound on how much of it runs; beyond, it is not done.
func (x *exchange) learn() {
	s := x.server
	if x.sample == nil {
		return
	}
	s.samples.Add(-1)
	if x.sample.broken {
		s.forget(x.sample)
		return
	}
	select {
	case s.learners <- struct{}{}:
	default:
		s.metrics.Shed("calibration")
		s.forget(x.sample)
		return
	}
	s.work.Add(1)
	from, tenant, upstream, id := x.sample, x.report.Tenant, x.report.Upstream, x.report.ID
	heard := func(value any, stack []byte) { s.bug(id, value, stack) } // x may be another's by then
	panics.Go(heard, func() {
		s.learnFrom(tenant, upstream, from)
		s.forget(from)
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
