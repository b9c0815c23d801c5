package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
)

// A TLSInput is the connection that TLS reads from. It can be told not to wait, and it tracks where
// TLS records end, because crypto/tls does not reveal how much of the next one it has read.
type TLSInput struct {
	*Conn
	now    bool // Read must not wait
	header [5]byte
	have   int // bytes of an incomplete header
	left   int // bytes of the record still to be read
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

// Silent reports whether the idle connection secure is open and the peer has sent nothing but TLS's
// own messages, such as tickets. It may read a byte if something else was sent.
func (in *TLSInput) Silent(secure *tls.Conn) bool {
	in.now = true
	defer func() { in.now = false }()
	var b [1]byte
	n, err := secure.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && in.have == 0 && in.left == 0
}

// readArrived reads what has arrived, without waiting. If that is nothing it returns a deadline
// error, after which crypto/tls can still be read.
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
