package proxy

import (
	"fmt"

	"sidenote/rewrite"
)

// learn compares, in the background, the billed tokens of the prompt, 0 if unknown, with our own
// count. It does nothing if enough of these comparisons are running.
func (a *account) learn(billed int) {
	s, from := a.server, a.sample
	a.sample = nil
	if billed == 0 || from == nil {
		from.Drop()
		return
	}
	tenant, upstream, id := a.report.Tenant, a.report.Upstream, a.report.ID
	logPanic := func(value any, stack []byte) { s.bug(id, value, stack) } // a may belong to another request by then
	if !from.Read(logPanic, func(body []byte) { s.learnFrom(tenant, upstream, body, billed) }) {
		s.metrics.Shed("calibration")
	}
}

func (s *Server) learnFrom(tenant, upstream string, body []byte, billed int) {
	m, err := s.setup.Load().rewriter.Learn(tenant, upstream, body, billed)
	if err == nil {
		s.showWindow(upstream, m, billed)
	}
	switch {
	case err != nil:
		panic("BUG: a request that was rewritten cannot be read: " + err.Error())
	case m.Absurd:
		s.metrics.UsageIgnored(upstream, "absurd")
	case m.Value.Ratio > 0:
		s.metrics.Calibrated(upstream, m.Row, m.Value.Ratio, m.Value.Offset)
	}
}

// showWindow reports the context window that an upstream was seen to serve, and logs a warning
// once for each upstream and row of the model table.
func (s *Server) showWindow(upstream string, m rewrite.Calibrated, billed int) {
	pair := [2]string{upstream, m.Row}
	if m.Window == 0 {
		if _, known := s.windows.Load(pair); known {
			s.metrics.ServedWindow(upstream, m.Row, 0)
		}
		return
	}
	s.metrics.ServedWindow(upstream, m.Row, m.Window)
	if _, known := s.windows.LoadOrStore(pair, true); !known {
		s.log.Warn(fmt.Sprintf("upstream %s truncates prompts of model %q: %d tokens were sent and %d billed. The window is taken to be %d tokens. "+
			"Serve a larger one (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or configure it: models: [{match: %q, window: %d}]",
			upstream, m.Model, m.Counted, billed, m.Window, m.Model, m.Window))
	}
}
