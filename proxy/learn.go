package proxy

import (
	"net/http"
	"slices"

	"sidenote/proxy/events"
	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
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
	usage    *events.Reader
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
func (a *account) takeSample(resp *transport.Answer, body [][]byte, how *transport.Relay) {
	if resp.Status() != http.StatusOK || size(body) > maxLearned {
		return
	}
	if a.server.samples.Add(1) > maxSamples {
		a.server.samples.Add(-1)
		return
	}
	m, _ := a.server.samplePool.Get().(*sample)
	if m == nil {
		m = &sample{usage: new(events.Reader)}
	}
	m.body = slices.Grow(m.body[:0], size(body))
	for _, p := range body {
		m.body = append(m.body, p...)
	}
	m.usage.Reset(a.streaming, string(resp.Header("Content-Encoding")))
	m.panicked = a.panicked
	a.sample, how.Tap = m, m.tap
}

// recycle puts a sample back into the pool.
func (s *Server) recycle(m *sample) {
	transport.Poison(m.body)
	*m = sample{body: m.body, usage: m.usage}
	s.samplePool.Put(m)
}

// size is the number of bytes of a body in pieces.
func size(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// promptTokens returns the tokens that the answer says were billed, 0 if they cannot be
// used.
func (m *sample) promptTokens(ignored func(reason string)) (billed int) {
	if m.broken {
		return 0
	}
	defer panics.Recover(m.panicked, func() { billed = 0 })
	billed, finding := m.usage.PromptTokens()
	switch finding {
	case events.Found:
		return billed
	case events.Absent:
	default:
		ignored(string(finding))
	}
	return 0
}

// learn reports the tokens that were billed and compares them with those that we count,
// in a goroutine of its own. If maxLearners of these run already, it does not compare.
func (a *account) learn() {
	s, from := a.server, a.sample
	if from == nil {
		return
	}
	s.samples.Add(-1)
	tenant, upstream, id := a.report.Tenant, a.report.Upstream, a.report.ID
	billed := from.promptTokens(func(reason string) { s.metrics.UsageIgnored(upstream, reason) })
	if billed == 0 {
		s.recycle(from)
		return
	}
	a.report.Calls[len(a.report.Calls)-1].PromptTokens = billed
	select {
	case s.learners <- struct{}{}:
	default:
		s.metrics.Shed("calibration")
		s.recycle(from)
		return
	}
	s.work.Add(1)
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
	m, err := s.rewriter.Learn(tenant, upstream, body, billed)
	switch {
	case err != nil:
		panic("BUG: a request that was rewritten cannot be read: " + err.Error())
	case m.Absurd:
		s.metrics.UsageIgnored(upstream, "absurd")
	case m.Value.Ratio > 0:
		s.metrics.Calibrated(upstream, m.Row, m.Value.Ratio, m.Value.Offset)
	}
}
