package transport

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/url"
	"time"
)

// Target returns what the request target raw becomes below a base URL's path.
func Target(base, raw string) (string, bool) {
	path, err := url.Parse(base)
	if err != nil {
		return err.Error(), false
	}
	path.Scheme, path.Host = "http", "upstream"
	u, err := NewUpstream(Config{BaseURL: path})
	if err != nil {
		return err.Error(), false
	}
	target, ok := appendTarget(nil, u.base, []byte(raw))
	return string(target), ok
}

// ReadAnswer reads raw as an upstream's answer to a GET.
func ReadAnswer(raw io.Reader) (status int, body []byte, err error) {
	br := bufio.NewReaderSize(raw, readerSize)
	var h answerHead
	if _, err := h.read(br, nil, false, nil); err != nil {
		return 0, nil, err
	}
	b := newBody(br, &h)
	body, err = io.ReadAll(&b)
	return h.status, body, err
}

// PassAnswer reads raw's body as a stream does, with a wait before each piece, and reports
// for each piece whether raw had to be read after the wait.
func PassAnswer(raw interface {
	io.Reader
	Asked() int
}) (pieces []string, late int, err error) {
	br := bufio.NewReaderSize(raw, readerSize)
	var h answerHead
	if _, err := h.read(br, nil, false, nil); err != nil {
		return nil, 0, err
	}
	b := newBody(br, &h)
	for piece := make([]byte, pieceSize); !b.ended(); {
		if err := b.wait(); err != nil {
			return pieces, late, err
		}
		asked := raw.Asked()
		n, err := b.Read(piece)
		if n > 0 {
			pieces = append(pieces, string(piece[:n]))
			late += raw.Asked() - asked
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return pieces, late, err
		}
	}
	return pieces, late, nil
}

// Timed returns c as a timed, and its methods that set deadlines.
func Timed(c net.Conn) (_ net.Conn, read, write, both func(time.Duration) error) {
	t := &timed{Conn: c}
	return t, t.waitRead, t.waitWrite, func(wait time.Duration) error { return t.waitBoth(clock(), wait) }
}

// Narrow gives u's open connections small write buffers.
func Narrow(u *Upstream) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		if err := c.tcp.SetWriteBuffer(64 << 10); err != nil {
			return err
		}
	}
	return nil
}

// WriteWithin writes p to c by writeWithin.
func WriteWithin(c net.Conn, p []byte, wait time.Duration) (int, error) {
	return (&timed{Conn: c}).writeWithin(p, wait)
}

// NewTCP returns c as a tcpConn.
func NewTCP(c net.Conn) (net.Conn, error) { return newTCP(c, nil) }

// ReadIn reads r to its end, or beyond limit, as a body of that many announced bytes, and
// returns the memory that it takes.
func ReadIn(r io.Reader, limit, announced int) (n, room int) {
	in := bodyReader{stream: r, limit: limit, announced: announced}
	b, _ := in.read(nil)
	return len(b), cap(b)
}

// Uploaded tells whether r's request is not being sent any more.
func Uploaded(r *Answer) bool { return r.x.upload == nil || r.x.upload.finished() }
