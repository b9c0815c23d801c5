package tcp

import (
	"errors"
	"os"
	"syscall"
)

// Exhausted reports whether an error of Accept is a temporary lack of descriptors or memory.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// Shares are the numbers of client connections that each server may have at once, so that together
// they leave the process some descriptors.
type Shares struct {
	Data  int // all data ports together
	MCP   int
	Admin int // the admin port; the telemetry port has as many
}

// SharesOf divides limit descriptors, 64 of which are reserved for files. A connection of a data
// port or MCP may need another one to an upstream.
func SharesOf(limit int) Shares {
	rest := max(limit-64, 0)
	share := func(of, least, most int) int { return min(max(of, least), most) }
	return Shares{
		Data:  share(rest/8*3, 16, 16<<10),
		MCP:   share(rest/16, 4, 1<<10),
		Admin: share(rest/32, 4, 1<<8),
	}
}

// A Spare keeps a descriptor in reserve for a connection that must be accepted when no other is
// free. It is not safe for concurrent use.
type Spare struct{ file *os.File }

// Keep reserves a descriptor, if one is free.
func (s *Spare) Keep() {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // without one, the next call tries again
	}
}

// Release frees the descriptor, and reports whether there was one.
func (s *Spare) Release() bool {
	if s.file == nil {
		return false
	}
	_ = s.file.Close()
	s.file = nil
	return true
}
