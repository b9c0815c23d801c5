package proxy

import (
	"math"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// Learning tells whether s still compares token counts of requests that ended.
func Learning(s *Server) bool { return s.samples.Reading() }

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
	a := &account{panicked: heard} // no reader
	return a.tap
}

// OccupyDecoders lets s decode no answers to read their usage until free is called.
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

// RememberBy lets s remember by another clock what upstreams refuse. It must not be serving yet.
func RememberBy(s *Server, now func() time.Time) { s.edits.Now = now }

// LeaveMemory takes the memory that bodies of s may ever take but for n bytes, until free is called.
func LeaveMemory(s *Server, n int) (free func()) {
	s.memory.Check()
	taken := s.memory.Largest(math.MaxInt) - int(s.memory.Taken()) - n
	s.memory.Give(-taken)
	return func() { s.memory.Give(taken) }
}
