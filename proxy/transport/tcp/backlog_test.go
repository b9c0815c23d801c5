//go:build linux || darwin

package tcp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"sidenote/proxy/transport/tcp"
)

// A backlogged connection accepts some bytes of each Write, and reports how many have not arrived
// yet, according to a script.
type backlogged struct {
	told
	script  []step
	got     []byte
	unknown bool
	backlog int
}

type step struct {
	taken   int
	err     error
	backlog int // after the Write
}

func (c *backlogged) Write(p []byte) (int, error) {
	s := c.script[0]
	c.script, c.backlog = c.script[1:], s.backlog
	c.got = append(c.got, p[:s.taken]...)
	return s.taken, s.err
}

func (c *backlogged) Backlog() (int, bool) { return c.backlog, !c.unknown }

// WriteWithin continues as long as bytes arrive between two deadlines.
func TestWriteWithin(t *testing.T) {
	const text = "0123456789"
	late, broken := os.ErrDeadlineExceeded, errors.New("broken")
	for name, c := range map[string]struct {
		script  []step // all steps must be used
		unknown bool
		n       int
		err     error
	}{
		"at once":              {script: []step{{10, nil, 0}}, n: 10},
		"arriving":             {script: []step{{0, late, 9}, {0, late, 8}, {0, late, 7}, {10, nil, 0}}, n: 10},
		"in pieces":            {script: []step{{3, late, 9}, {3, late, 9}, {4, nil, 9}}, n: 10},
		"nothing arrives":      {script: []step{{0, late, 9}, {0, late, 9}}, n: 0, err: late},
		"nothing arrives more": {script: []step{{2, late, 9}, {0, late, 8}, {0, late, 8}}, n: 2, err: late},
		"only taken":           {script: []step{{0, late, 9}, {3, late, 12}}, n: 3, err: late},
		"not known":            {script: []step{{4, late, 9}}, unknown: true, n: 4, err: late},
		"broken":               {script: []step{{4, broken, 9}}, n: 4, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &backlogged{script: c.script, unknown: c.unknown}
			n, err := (&tcp.Timed{Conn: conn}).WriteWithin([]byte(text), time.Hour)
			if n != c.n || !errors.Is(err, c.err) || string(conn.got) != text[:c.n] {
				t.Errorf("%d, %v and %q, want %d and %v", n, err, conn.got, c.n, c.err)
			}
			if len(conn.script) > 0 {
				t.Errorf("gave up before %v", conn.script)
			}
		})
	}
}

// A slow connection has a peer that reads only before each wait except the first. It reads until
// the system reports that more has arrived, which it does in large steps.
type slow struct {
	net.Conn
	peer  io.Reader
	got   bytes.Buffer
	waits int
}

func (c *slow) Backlog() (int, bool) {
	return c.Conn.(interface{ Backlog() (int, bool) }).Backlog()
}

func (c *slow) SetWriteDeadline(at time.Time) error {
	c.waits++
	before, _ := c.Backlog()
	for now := before; c.waits > 1 && now >= before; now, _ = c.Backlog() {
		if _, err := io.CopyN(&c.got, c.peer, 32<<10); err != nil {
			return err
		}
	}
	return c.Conn.SetWriteDeadline(at)
}

// The kernel reports what a slow peer has read long before a Write can continue.
func TestSlowReader(t *testing.T) {
	server, peer := pair(t)
	_ = server.(*net.TCPConn).SetWriteBuffer(128 << 10)
	fast, err := tcp.New(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := &slow{Conn: fast, peer: peer}
	text := bytes.Repeat([]byte("0123456789abcdef"), 768<<10/16)
	n, err := (&tcp.Timed{Conn: conn}).WriteWithin(text, 200*time.Millisecond)
	if n != len(text) || err != nil || conn.waits < 3 {
		t.Fatalf("%d bytes in %d waits, %v", n, conn.waits, err)
	}
	if _, err := io.CopyN(&conn.got, peer, int64(n-conn.got.Len())); err != nil || !bytes.Equal(conn.got.Bytes(), text) {
		t.Errorf("%d bytes arrived, %v", conn.got.Len(), err)
	}
}

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (server, peer net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if peer, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close(); server.Close() })
	return server, peer
}
