package redistest

import (
	"bufio"
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Lie starts a server that reads commands as Redis does and writes whatever reply
// returns, unchanged. It stands for a Redis that is none, or that answers falsely. If
// reply returns nil, the connection is closed; if it returns an empty slice, nothing is
// written. reply is called by one goroutine per connection and must return.
func Lie(t testing.TB, reply func(args []string) []byte) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { lieTo(ctx, conn, reply) })
		}
	})
	return ln.Addr().String()
}

// lieTo serves one connection until ctx ends.
func lieTo(ctx context.Context, conn net.Conn, reply func(args []string) []byte) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := reply(args)
		if answer == nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// FullBacklog returns the address of a listener that accepts no more connections: the
// system drops requests for one, and a dial waits for its own timeout. If the system
// cannot do that, the test is skipped.
func FullBacklog(t testing.TB) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	if err := shrinkBacklog(ln.(*net.TCPListener)); err != nil {
		t.Skip(err)
	}
	for range 16 {
		conn, err := net.DialTimeout("tcp", ln.Addr().String(), 250*time.Millisecond)
		if err != nil {
			return ln.Addr().String() // the request was dropped: the backlog is full
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("the system keeps accepting connections beyond the backlog")
	return ""
}
