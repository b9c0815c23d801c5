package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
)

// While a server is nearly full, the head of a request has less time. After a complete head the
// usual time applies.
func TestHeadsUnderPressure(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
	for name, row := range map[string]struct {
		others int
		sent   string
		want   time.Duration
	}{
		"half full":                   {1, head[:9], time.Minute},
		"nearly full":                 {2, head[:9], HeadPatience},
		"nearly full, nothing sent":   {2, "", HeadPatience},
		"nearly full, the body waits": {2, head, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := NewServer(func(*fasthttp.RequestCtx) {}, ServerOptions{Connections: 4, Read: time.Minute})
			gate := NewGate(nil, GateOptions{})
			var pipes []net.Conn
			accept := func() (*clientConn, net.Conn) {
				ours, theirs := net.Pipe()
				pipes = append(pipes, ours, theirs)
				return s.guard.newConn(ours, netip.Addr{}, gate), theirs
			}
			for range row.others {
				accept()
			}
			c, peer := accept()
			start, buf := time.Now(), make([]byte, 100)
			if row.sent != "" {
				go func() { _, _ = peer.Write([]byte(row.sent)) }()
				if _, err := c.Read(buf); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != row.want {
				t.Errorf("%s: %v after %v, want %v", name, err, time.Since(start), row.want)
			}
			for _, p := range pipes {
				_ = p.Close()
			}
		})
	}
}
