package transport_test

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sidenote/proxy/transport"
)

// blackhole returns an address that neither accepts nor refuses connections: the queue of a socket
// that listens and accepts nothing is full, so Linux drops what arrives.
func blackhole(t *testing.T) string {
	t.Helper()
	socket := func() int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		return fd
	}
	fd := socket()
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // one fits into the queue, and these stay
		_ = syscall.Connect(socket(), at)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
}

// A connection that is not answered is given up after Connect, and the next base URL is tried.
func TestConnectTimeout(t *testing.T) {
	hole := baseAt(blackhole(t))
	hole.Connect = 30 * time.Millisecond
	if got := poster(t, newBases(t, hole))("hello"); !strings.Contains(got, "upstream connect_timeout: nothing within 30ms") {
		t.Errorf("%q", got)
	}
	b := newBases(t, hole, baseAt(named(t, listen(t), "second").ln.Addr().String()))
	if got := poster(t, b)("hello"); got != "second got hello" {
		t.Errorf("%q", got)
	}
	if s := b.States()[0]; transport.LimitOf(s.Err) != hole.Connect {
		t.Errorf("%+v", s)
	}
}
