package proxy

import (
	"bytes"

	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// runShadow rewrites a copy of the body for metrics and log, in the background. It does nothing if
// as much shadow work is running as is allowed.
func (x *exchange) runShadow(body []byte, p rewrite.Policy, o rewrite.Options) {
	s := x.server
	if !s.beginShadow(len(body)) {
		s.metrics.Shed("shadow")
		x.report.Reason = rewrite.ReasonOverload
		return
	}
	body = bytes.Clone(body)
	api := x.attempt.req.API
	rw := x.setup.rewriter
	x.refs.Add(1)
	s.work.Add(1)
	panics.Go(s.panicked, func() {
		defer s.endShadow(len(body))
		defer x.release()
		defer panics.Recover(x.panicked, func() {
			x.shadow = &rewrite.Result{Outcome: report.Failed, Reason: report.ReasonInternal, Model: x.report.Rewrite.Model}
		})
		req, err := api.Parse(body)
		if err != nil {
			panic("BUG: a body parsed once and not twice: " + err.Error())
		}
		res := new(rewrite.Result)
		rw.Rewrite(x.traced(s.base), &p, req, &o, res)
		x.shadow = res
	}, s.work.Done)
}

// beginShadow reserves a slot and size bytes of memory for shadow work. It returns false, having
// reserved nothing, if either is not available.
func (s *Server) beginShadow(size int) bool {
	if !s.memory.Take(size) {
		return false
	}
	select {
	case s.shadows <- struct{}{}:
		return true
	default:
		s.memory.Give(size)
		return false
	}
}

func (s *Server) endShadow(size int) {
	<-s.shadows
	s.memory.Give(size)
}
