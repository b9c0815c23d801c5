//go:build !linux

package tcp

import "net"

type calls struct{}

func (*Conn) prepare() {}

// WriteAll writes pieces one after another.
func (t *Conn) WriteAll(pieces [][]byte) (int, error) {
	n, err := (*net.Buffers)(&pieces).WriteTo(t.stream)
	return int(n), err
}

// writeNow writes nothing, as we know no write here that does not wait.
func writeNow(uintptr, [][]byte) (n int, wouldBlock bool, err error) { return 0, true, nil }
