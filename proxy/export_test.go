package proxy

import (
	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// TooLong shows what is made of an upstream's error answer.
func TooLong(status int, body []byte) (limit, requested int, ok bool) {
	t, ok := tooLong(status, body)
	return t.limit, t.requested, ok
}

// Learning tells whether s still looks at what was billed for requests that ended.
func Learning(s *Server) bool { return len(s.learners) > 0 }

// WithFaults returns cfg with a way to the I/O of the connections of clients and of
// upstreams; nil: as it is.
func WithFaults(cfg Config, clients, upstreams transport.Raw) Config {
	cfg.raw.clients, cfg.raw.upstreams = clients, upstreams
	return cfg
}

// Held tells what s has counted in and not out: requests, shadow work, bodies' bytes and
// answers that are learnt from.
func Held(s *Server) map[string]int64 {
	held := map[string]int64{
		"requests": s.openRequests.Load(), "shadows": int64(len(s.shadows)), "lessons": s.samples.Load(),
		"bytes of bodies": s.memory.bodies.Load(), "client connections": int64(s.http.Connections()),
	}
	for name, b := range s.upstreams {
		held["connections of "+name] = int64(b.client.Busy())
	}
	return held
}

// BrokenTap returns what takes the pieces of an answer that is learnt from, such that
// each would panic.
func BrokenTap(heard panics.Handler) func(piece []byte) {
	l := &sample{panicked: heard} // no reader
	return l.tap
}
