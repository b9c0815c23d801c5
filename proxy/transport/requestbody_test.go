package transport_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// A slowConn delivers at most that many bytes before a deadline.
type slowConn struct {
	net.Conn
	each, left int
}

func (c *slowConn) SetReadDeadline(at time.Time) error {
	c.left = c.each
	return c.Conn.SetReadDeadline(at)
}

func (c *slowConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// A slowListener's connections are slowConns.
type slowListener struct {
	net.Listener
	each int
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: c, each: l.each, left: l.each}, nil
}

// A body may be slow as long as it keeps arriving.
func TestSteadyBody(t *testing.T) {
	const size = 1 << 20
	f := func(framing string, each int, want transport.Class) {
		t.Helper()
		result := make(chan error, 1)
		s := transport.NewServer(func(ctx *fasthttp.RequestCtx) {
			body, whole, err := transport.ReadBody(ctx, 4<<20, patience, nil)
			if err == nil && (!whole || len(body) != size) {
				err = fmt.Errorf("%d bytes, whole %v", len(body), whole)
			}
			result <- err
		}, transport.ServerOptions{ErrorBody: errorBody})
		ln, ended := slowListener{listen(t), each}, make(chan error, 1)
		go func() { ended <- s.Serve(ln) }()
		c := dial(t, ln.Addr().String())
		go io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+framing) // may fail: then the other side has closed
		if err := await(t, result, framing[:10]); transport.ClassOf(err) != want || want == "" && err != nil {
			t.Errorf("%.10s…, %d bytes for each deadline: %v, want %q", framing, each, err, want)
		}
		c.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
	}
	body := strings.Repeat("x", size)
	for _, framing := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, body), fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, body)} {
		f(framing, 320<<10, "")
		f(framing, 200<<10, transport.ClientLate)
	}
}
