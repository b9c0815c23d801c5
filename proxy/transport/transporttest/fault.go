// Package transporttest injects faults into connections and issues certificates, for tests.
package transporttest

import (
	"net"
	"sync/atomic"
	"syscall"
)

// A Kind says how the chosen I/O operation fails.
type Kind int

// The kinds.
const (
	Fails  Kind = iota // it returns an error, and the connection is reset
	Breaks             // it succeeds, and then the connection is reset
	Panics             // it panics
)

// String returns the name of the kind.
func (k Kind) String() string { return [...]string{"fails", "breaks", "panics"}[k] }

// A Fault affects one I/O operation of the connections that Open is called for: a read, a write, or
// a check that does neither. Open is a transport.Raw.
type Fault struct {
	Kind Kind

	left atomic.Int64 // I/O operations left, including the one that fails
}

// Set makes the I/O operation number at fail, counted from 0 for the next one.
func (f *Fault) Set(at int64) { f.left.Store(at + 1) }

// Reached reports whether the fault has happened.
func (f *Fault) Reached() bool { return f.left.Load() <= 0 }

// Open returns the raw connection of c, with the fault.
func (f *Fault) Open(c *net.TCPConn) (syscall.RawConn, error) {
	raw, err := c.SyscallConn()
	return &faulty{raw: raw, conn: c, fault: f}, err
}

// faulty is a raw connection on which a fault may happen.
type faulty struct {
	raw    syscall.RawConn
	conn   *net.TCPConn
	fault  *Fault
	within atomic.Int32 // I/O operations in progress
}

// Read implements syscall.RawConn.
func (r *faulty) Read(f func(fd uintptr) bool) error {
	return r.at(func() error { return r.raw.Read(f) })
}

// Write implements syscall.RawConn.
func (r *faulty) Write(f func(fd uintptr) bool) error {
	return r.at(func() error { return r.raw.Write(f) })
}

// Control implements syscall.RawConn.
func (r *faulty) Control(f func(fd uintptr)) error {
	return r.at(func() error { return r.raw.Control(f) })
}

func (r *faulty) at(do func() error) error {
	if r.fault.left.Add(-1) != 0 {
		r.within.Add(1)
		defer r.within.Add(-1)
		return do()
	}
	switch r.fault.Kind {
	case Panics:
		panic("injected")
	case Breaks:
		defer r.reset()
		return do()
	}
	r.reset()
	return syscall.ECONNRESET
}

// reset resets the connection for both sides. Errors mean that it is already broken.
func (r *faulty) reset() {
	_ = r.conn.SetLinger(0)
	if r.within.Load() == 0 {
		_ = r.conn.Close()
		return
	}
	_ = r.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(handle(fd), syscall.SHUT_RDWR) }) //nolint:gosec // a descriptor is an int
	go r.conn.Close()                                                                           //nolint:errcheck // it waits for the I/O around this one
}
