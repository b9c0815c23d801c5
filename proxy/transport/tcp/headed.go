package tcp

import (
	"bufio"
	"io"
	"net"
	"sync"
)

// headedBuffer is the size of the first read in bytes; longer headers take more reads.
const headedBuffer = 512

// A Headed is a connection that begins with a header, which the first Read consumes. The header
// gives the peer's address.
type Headed struct {
	*Conn
	header func(*bufio.Reader) (net.Addr, error)
	once   sync.Once
	read   *bufio.Reader // what was read after the header; nil if nothing is left
	peer   net.Addr      // address from the header; nil: that of the connection
	failed error
}

// NewHeaded returns conn with a header. header reads the header and nothing after it, and returns
// the address of the peer, or nil for that of conn. If it fails, Read returns io.EOF, since a peer
// without a header must not get an answer.
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

// RemoteAddr implements net.Conn. Call it only after the first Read.
func (h *Headed) RemoteAddr() net.Addr {
	if h.peer != nil {
		return h.peer
	}
	return h.Conn.RemoteAddr()
}
