//go:build !linux

package tcp

import "net"

type calls struct{}

func (*Conn) prepare() {}

// WriteAll writes pieces in order.
func (t *Conn) WriteAll(pieces [][]byte) (int, error) {
	n, err := (*net.Buffers)(&pieces).WriteTo(t.stream)
	return int(n), err
}

// writeNow writes nothing, because this system has no known way to write without waiting.
func writeNow(uintptr, [][]byte) (n int, wouldBlock bool, err error) { return 0, true, nil }
