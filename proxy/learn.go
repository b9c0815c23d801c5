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
	maxLessons  = 64        // requests that wait for the end of their answers
)

// A lesson is a request as it went up, and what its answer says of its tokens. Its
// memory is used again.
type lesson struct {
	body     []byte
	usage    *usage.Reader
	broken   bool // by a panic: the answer goes on, but nothing is learnt
	panicked panics.Handler
}

// tap takes the next piece of the answer.
func (l *lesson) tap(piece []byte) {
	if l.broken {
		return
	}
	defer panics.Recover(l.panicked, func() { l.broken = true })
	l.usage.Write(piece)
}

// listen lets the answer to a request, one of a sample, tell what was billed for
// it. The answer passes as it would without.
func (x *exchange) listen(resp *transport.Response, how *transport.Relay) {
	if resp.Status() != http.StatusOK || size(x.plain) > maxLearned {
		return
	}
	if x.server.lessons.Add(1) > maxLessons {
		x.server.lessons.Add(-1)
		return
	}
	l, _ := x.server.learnt.Get().(*lesson)
	if l == nil {
		l = new(lesson)
	}
	l.body = slices.Grow(l.body[:0], size(x.plain))
	for _, p := range x.plain {
		l.body = append(l.body, p...)
	}
	l.usage = usage.NewReader(string(resp.Header("Content-Encoding")))
	l.panicked = x.panicked
	x.lesson, how.Tap = l, l.tap
}

// forget gives a lesson's memory to another one.
func (s *Server) forget(l *lesson) {
	transport.Poison(l.body)
	*l = lesson{body: l.body}
	s.learnt.Put(l)
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
	if x.lesson == nil {
		return
	}
	s.lessons.Add(-1)
	if x.lesson.broken {
		s.forget(x.lesson)
		return
	}
	select {
	case s.learners <- struct{}{}:
	default:
		s.metrics.Shed("calibration")
		s.forget(x.lesson)
		return
	}
	s.work.Add(1)
	from, tenant, upstream, id := x.lesson, x.report.Tenant, x.report.Upstream, x.report.ID
	heard := func(value any, stack []byte) { s.bug(id, value, stack) } // x may be another's by then
	panics.Go(heard, func() {
		s.learnFrom(tenant, upstream, from)
		s.forget(from)
	}, func() {
		<-s.learners
		s.work.Done()
	})
}

func (s *Server) learnFrom(tenant, upstream string, from *lesson) {
	billed, finding := from.usage.PromptTokens()
	switch finding {
	case usage.Found:
	case usage.Absent:
		return
	default:
		s.metrics.UsageIgnored(upstream, string(finding))
		return
	}
	l, err := s.rewriter.Learn(tenant, upstream, from.body, billed)
	switch {
	case err != nil:
		panic("BUG: a request that was rewritten cannot be read: " + err.Error())
	case l.Absurd:
		s.metrics.UsageIgnored(upstream, "absurd")
	case l.Value.Ratio > 0:
		s.metrics.Calibrated(upstream, l.Row, l.Value.Ratio, l.Value.Offset)
	}
}
