package transport_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"sidenote/proxy/transport"
)

// An upstream may answer before it has read the request. The body is still sent after the handler
// has returned, so its memory must not be reused for another request. With the tag sidenote_debug,
// returned memory is overwritten, which this test notices.
func TestBodyOutlivesHandler(t *testing.T) {
	t.Parallel()
	seen, got := make(chan struct{}), make(chan string, 1)
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		if _, _, err := readMessage(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = br.ReadString('\n'); err != nil {
				return
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nea")
		<-seen
		body := make([]byte, 900_000)
		_, _ = io.ReadFull(br, body)
		got <- string(body)
		_, _ = io.WriteString(c, "rly")
	})
	u := newUpstream(t, o.config(""))
	addr := readingFirst(t, u)
	c := dial(t, addr)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
	c.message()
	if err := transport.Narrow(u); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("a", 900_000)
	c.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(want), want))
	for line := ""; line != "\r\n"; { // once the head arrives, the handler has returned
		var err error
		if line, err = c.br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	close(seen)
	if body := []byte(await(t, got, "body")); string(body) != want {
		t.Errorf("the upstream got %d bytes that are not the client's", len(body)-bytes.Count(body, []byte("a")))
	}
}
