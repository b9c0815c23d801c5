//go:build !linux

package transport

import "net"

type calls struct{}

func (*tcpConn) prepare() {}

// writeAll writes pieces one after another.
func (t *tcpConn) writeAll(pieces [][]byte) (int, error) {
	n, err := (*net.Buffers)(&pieces).WriteTo(t.TCPConn)
	return int(n), err
}

// writeNow writes nothing: what does not wait is not known here.
func writeNow(uintptr, [][]byte) (n int, none bool, err error) { return 0, true, nil }
