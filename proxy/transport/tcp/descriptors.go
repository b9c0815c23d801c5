package tcp

import (
	"errors"
	"syscall"
)

// Exhausted reports whether an error of Accept is a lack of descriptors or memory, which
// passes.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// MostConnections returns how many connections of clients may be open at once by default:
// each may need another one to the upstream, and there are other open files.
func MostConnections() int {
	const standard = 16 << 10
	return min(standard, max(DescriptorLimit()/2-64, 16))
}
