package proxy

import (
	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// Learning tells whether s still compares token counts of requests that ended.
func Learning(s *Server) bool { return len(s.learners) > 0 }

// WithFaults returns cfg with other raw connections of clients and of upstreams, which can
// make their reads and writes fail; nil leaves them as they are.
func WithFaults(cfg Config, clients, upstreams transport.Raw) Config {
	cfg.raw.clients, cfg.raw.upstreams = clients, upstreams
	return cfg
}

// Held returns what s has taken and not given back: requests, shadow work, memory for
// bodies, samples, and connections.
func Held(s *Server) map[string]int64 {
	held := map[string]int64{
		"requests": s.openRequests.Load(), "shadows": int64(len(s.shadows)), "samples": s.samples.Load(),
		"bytes of bodies": s.memory.bodies.Load(), "client connections": int64(s.http.Connections()),
	}
	for name, b := range s.upstreams {
		held["connections of "+name] = int64(b.client.Busy())
	}
	return held
}

// BrokenTap returns the tap of a sample without a reader, which panics.
func BrokenTap(heard panics.Handler) func(piece []byte) {
	l := &sample{panicked: heard} // no reader
	return l.tap
}
