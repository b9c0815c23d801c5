package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
)

// A TLSInput is the connection that TLS reads from. It can be told not to wait, and it
// tracks where TLS records end: crypto/tls does not tell what it has read of the next
// one.
type TLSInput struct {
	*Conn
	now    bool // Read must not wait
	header [5]byte
	have   int // bytes of header that have been read, if it is not complete
	left   int // bytes of the record that are still to be read
}

// Read implements net.Conn.
func (in *TLSInput) Read(p []byte) (n int, err error) {
	if in.now {
		n, err = in.Conn.readArrived(p)
	} else {
		n, err = in.Conn.Read(p)
	}
	in.trackRecords(p[:n])
	return n, err
}

// trackRecords finds the ends of records in the bytes that were read.
func (in *TLSInput) trackRecords(p []byte) {
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

// Silent reports whether secure, which is idle, is open and the peer has sent nothing on
// it but messages of TLS itself, such as tickets. It may read a byte of what else was
// sent.
func (in *TLSInput) Silent(secure *tls.Conn) bool {
	in.now = true
	defer func() { in.now = false }()
	var b [1]byte
	n, err := secure.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && in.have == 0 && in.left == 0
}

// readArrived reads what has arrived, without waiting. If that is nothing it returns the
// error of a deadline, after which crypto/tls can be read from again.
func (t *Conn) readArrived(p []byte) (n int, err error) {
	wouldBlock := false
	failed := t.Raw.Control(func(fd uintptr) { n, wouldBlock, err = ReadNow(fd, p) })
	switch {
	case failed != nil:
		return 0, failed
	case wouldBlock:
		return 0, os.ErrDeadlineExceeded
	case n == 0 && err == nil:
		return 0, io.EOF
	}
	return n, err
}
