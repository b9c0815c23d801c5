package http1

import (
	"errors"
	"io"
)

// minPerWait is how many bytes of a body must arrive within each wait of ReadBody. 256 KiB in a
// minute is a twentieth of what a slow line carries.
const minPerWait = 256 << 10

// uncountedBytes is how much of a body is kept without reserving memory from Memory.
const uncountedBytes = 64<<10 + 1

// A BodyMemory limits the memory for bodies.
type BodyMemory interface {
	// Take reserves n bytes and reports whether they were available. The caller of ReadBody gives
	// them back when the handler has returned, or once Answer.Sent is true.
	Take(n int) bool
}

// ErrNoRoom is returned if a BodyMemory has no memory for a body.
var ErrNoRoom = errors.New("no room for a request's body")

// A BodyReader reads a body into memory.
type BodyReader struct {
	Stream           io.Reader
	Limit, Announced int
	Memory           BodyMemory   // nil: no limit
	Timed            func() error // sets the deadline; called before each minPerWait bytes; nil: the deadline is set elsewhere
}

// Read appends the body to dst, which must be empty, until the body ends or dst is longer than
// Limit. Memory grows with what has arrived, not with Announced.
func (in *BodyReader) Read(dst []byte) (_ []byte, err error) {
	if counted(cap(dst)) > 0 && !in.take(counted(cap(dst))) {
		dst = nil
	}
	if first := firstSize(in.Announced); cap(dst) < first {
		dst = make([]byte, 0, first)
	}
	due := 0
	for len(dst) <= in.Limit {
		if in.Timed != nil && len(dst) >= due {
			if err := in.Timed(); err != nil {
				return dst, err
			}
			due = len(dst) + minPerWait
		}
		if len(dst) == cap(dst) {
			if dst, err = in.grow(dst); err != nil {
				return dst, err
			}
		}
		n, err := in.Stream.Read(dst[len(dst):min(cap(dst), in.Limit+1)])
		dst = dst[:len(dst)+n]
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// grow returns dst with a larger capacity, up to the maximal size of the body.
func (in *BodyReader) grow(dst []byte) ([]byte, error) {
	most := in.Limit + 1
	if in.Announced > 0 {
		most = min(in.Announced, in.Limit) + 1 // plus one byte for the Read that finds the end
	}
	size := max(min(2*cap(dst), most), cap(dst)+1)
	if !in.take(counted(size) - counted(cap(dst))) {
		return dst, ErrNoRoom
	}
	return append(make([]byte, 0, size), dst...), nil
}

func (in *BodyReader) take(n int) bool { return in.Memory == nil || in.Memory.Take(n) }

// counted returns how many of n bytes must be reserved from Memory.
func counted(n int) int { return max(0, n-uncountedBytes) }

// firstSize returns the initial capacity.
func firstSize(announced int) int { return min(max(announced, 512), uncountedBytes-1) + 1 }
