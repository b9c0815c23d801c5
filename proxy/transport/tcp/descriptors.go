package tcp

import (
	"errors"
	"os"
	"syscall"
)

// Exhausted reports whether an error of Accept is a lack of descriptors or memory, which
// passes.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// Shares are how many connections of clients each server may have at once, so that together they
// leave the process some descriptors.
type Shares struct {
	Data  int // of all data ports
	MCP   int
	Admin int // of the admin port, and as many of the telemetry port
}

// SharesOf divides limit descriptors. Files get 64 of them. A connection of the data port or of MCP
// may need another one, to an upstream.
func SharesOf(limit int) Shares {
	rest := max(limit-64, 0)
	share := func(of, least, most int) int { return min(max(of, least), most) }
	return Shares{
		Data:  share(rest/8*3, 16, 16<<10),
		MCP:   share(rest/16, 4, 1<<10),
		Admin: share(rest/32, 4, 1<<8),
	}
}

// A Spare keeps a descriptor back for a connection that must be accepted when no other is free. It
// is for one goroutine.
type Spare struct{ file *os.File }

// Keep keeps a descriptor back, if one is free.
func (s *Spare) Keep() {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // without one, the next call tries again
	}
}

// Release makes the descriptor free, and reports whether there was one.
func (s *Spare) Release() bool {
	if s.file == nil {
		return false
	}
	_ = s.file.Close()
	s.file = nil
	return true
}
