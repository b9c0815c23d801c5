package proxy

import (
	"math"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// Learning reports whether s is comparing the token counts of ended requests.
func Learning(s *Server) bool { return s.samples.Reading() }

// WithFaults returns cfg with other raw connections of clients and of upstreams, which can make
// reads and writes fail; nil keeps the normal ones.
func WithFaults(cfg Config, clients, upstreams transport.Raw) Config {
	cfg.raw.clients, cfg.raw.upstreams = clients, upstreams
	return cfg
}

// Held returns the resources that s holds: requests, shadow work, memory for bodies, samples, and
// connections.
func Held(s *Server) map[string]int64 {
	held := map[string]int64{
		"requests": s.openRequests.Load(), "shadows": int64(len(s.shadows)), "samples": s.samples.Kept(),
		"bytes of bodies": s.memory.Taken(), "client connections": int64(s.http.Connections()),
	}
	for name, b := range s.setup.Load().upstreams {
		held["connections of "+name] = int64(b.client.Busy())
	}
	return held
}

// BrokenTap returns the tap of an account without a reader, which panics.
func BrokenTap(heard panics.Handler) func(piece []byte) {
	a := &account{kept: kept{panicked: heard}} // without a reader
	return a.tap
}

// OccupyDecoders prevents s from decoding answers to read their usage until free is called.
func OccupyDecoders(s *Server) (free func()) {
	for range maxDecoders {
		s.decoders <- struct{}{}
	}
	return func() {
		for range maxDecoders {
			<-s.decoders
		}
	}
}

// RememberBy sets the clock by which s remembers the refusals of upstreams. s must not be serving
// yet.
func RememberBy(s *Server, now func() time.Time) { s.edits.Now = now }

// LeaveMemory reserves all memory for bodies of s except n bytes, until free is called.
func LeaveMemory(s *Server, n int) (free func()) {
	s.memory.Check()
	taken := s.memory.Largest(math.MaxInt) - int(s.memory.Taken()) - n
	s.memory.Give(-taken)
	return func() { s.memory.Give(taken) }
}

// KeyHeaders returns the header lines that replace the client's credentials.
func KeyHeaders(u Upstream) []transport.Header { return keyHeaders(u) }

// BetterPlacement returns the placement that keeps a prompt cache which that of the policy breaks.
func BetterPlacement(p rewrite.Policy, c tokens.PromptCache) rewrite.Placement {
	return betterPlacement(&p, new(chat.Request), c)
}

// CountCitations counts the citations of a recorded answer as a Server does.
func CountCitations(r *report.Report, req *chat.Request, a *record.Answer) {
	(&Server{}).countCitations(r, req, a)
}
