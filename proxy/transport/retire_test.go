package transport_test

import (
	"bufio"
	"io"
	"net"
	"testing"
)

// A retired upstream keeps no idle connections: existing ones are closed at once, one with an open
// answer after that, and that of a later call too.
func TestRetire(t *testing.T) {
	first, more, closed := make(chan struct{}), make(chan struct{}), make(chan struct{}, 3)
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		for {
			head, _, err := readMessage(br)
			if err != nil {
				closed <- struct{}{}
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
			if head[:5] == "GET /" && head[5] == 's' { // slow
				first <- struct{}{}
				<-more
			}
			_, _ = io.WriteString(c, "cd")
		}
	})
	u := newUpstream(t, o.config(""))
	f := relaying(t, u)
	ask := func(path string) *client {
		c := dial(t, f.addr)
		c.send("GET /" + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		return c
	}
	whole := func(c *client) {
		t.Helper()
		if _, body := c.message(); body != "abcd" {
			t.Errorf("got %q", body)
		}
		if out := await(t, f.outcomes, "the answer"); out.Err != nil {
			t.Error(out.Err)
		}
	}
	slow := ask("slow")
	await(t, first, "the slow answer")
	whole(ask("idle"))
	u.Retire()
	await(t, closed, "the end of the idle connection")
	more <- struct{}{}
	whole(slow)
	await(t, closed, "the end of the busy connection")
	whole(ask("late"))
	await(t, closed, "the end of a later connection")
	if n := u.Busy(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}
