package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
)

// A tlsInput is what TLS reads from. It can be told to wait for nothing, and knows
// where records end: TLS keeps to itself what it has read of the next one.
type tlsInput struct {
	*tcpConn
	now    bool // Read waits for nothing
	header [5]byte
	have   int // bytes of header, of a record whose head is on its way
	left   int // bytes of the record that are still to come
}

// Read implements net.Conn.
func (in *tlsInput) Read(p []byte) (n int, err error) {
	if in.now {
		n, err = in.tcpConn.readArrived(p)
	} else {
		n, err = in.tcpConn.Read(p)
	}
	in.follow(p[:n])
	return n, err
}

// follow finds the ends of records in what was read.
func (in *tlsInput) follow(p []byte) {
	for len(p) > 0 {
		if in.left == 0 {
			n := copy(in.header[in.have:], p)
			p = p[n:]
			if in.have += n; in.have < len(in.header) {
				return
			}
			in.have, in.left = 0, int(in.header[3])<<8|int(in.header[4])
		}
		n := min(in.left, len(p))
		p = p[n:]
		in.left -= n
	}
}

// silent reports whether secure, which is idle, is open and nothing has been sent on it
// but what concerns TLS, such as tickets. It may read what else there is.
func (in *tlsInput) silent(secure *tls.Conn) bool {
	in.now = true
	defer func() { in.now = false }()
	var b [1]byte
	n, err := secure.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && in.have == 0 && in.left == 0
}

// readArrived is a Read that waits for nothing; where there is nothing its error is
// that of a deadline, after which TLS can be read from again.
func (t *tcpConn) readArrived(p []byte) (n int, err error) {
	none := false
	failed := t.raw.Control(func(fd uintptr) { n, none, err = readNow(fd, p) })
	switch {
	case failed != nil:
		return 0, failed
	case none:
		return 0, os.ErrDeadlineExceeded
	case n == 0 && err == nil:
		return 0, io.EOF
	}
	return n, err
}
