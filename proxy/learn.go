package proxy

// learn compares the tokens that were billed for the prompt, 0 if that is not known, with those
// that we count, beside the request. If enough of that is done already, it does not.
func (a *account) learn(billed int) {
	s, from := a.server, a.sample
	a.sample = nil
	if billed == 0 || from == nil {
		from.Drop()
		return
	}
	tenant, upstream, id := a.report.Tenant, a.report.Upstream, a.report.ID
	logPanic := func(value any, stack []byte) { s.bug(id, value, stack) } // by then a may be another request's
	if !from.Read(logPanic, func(body []byte) { s.learnFrom(tenant, upstream, body, billed) }) {
		s.metrics.Shed("calibration")
	}
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
