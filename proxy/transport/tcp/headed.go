package tcp

import (
	"bufio"
	"io"
	"net"
	"sync"
)

// headedBuffer is how much is read at first, in bytes. A header that is longer is read on.
const headedBuffer = 512

// A Headed is a connection that begins with a header, which the first Read reads before
// anything else. It says where the peer is.
type Headed struct {
	*Conn
	header func(*bufio.Reader) (net.Addr, error)
	once   sync.Once
	read   *bufio.Reader // what was read with the header; nil: nothing is left
	peer   net.Addr      // as the header says; nil: as the connection does
	failed error
}

// NewHeaded returns conn. header reads the header and nothing behind it, and returns the
// address of the peer, or nil for that of conn. If it fails the connection is at its end: who
// sends no header must not be answered.
func NewHeaded(conn *Conn, header func(*bufio.Reader) (net.Addr, error)) *Headed {
	return &Headed{Conn: conn, header: header}
}

// inner is for Of.
func (h *Headed) inner() net.Conn { return h.Conn }

// begin reads the header.
func (h *Headed) begin() {
	h.read = bufio.NewReaderSize(h.Conn, headedBuffer)
	var err error
	if h.peer, err = h.header(h.read); err != nil {
		h.failed = io.EOF
	}
}

// Read implements net.Conn.
func (h *Headed) Read(p []byte) (int, error) {
	h.once.Do(h.begin)
	switch {
	case h.failed != nil:
		return 0, h.failed
	case h.read == nil:
		return h.Conn.Read(p)
	case h.read.Buffered() == 0:
		h.read = nil
		return h.Conn.Read(p)
	}
	return h.read.Read(p[:min(len(p), h.read.Buffered())])
}

// RemoteAddr implements net.Conn. It may be called after the first Read.
func (h *Headed) RemoteAddr() net.Addr {
	if h.peer != nil {
		return h.peer
	}
	return h.Conn.RemoteAddr()
}
