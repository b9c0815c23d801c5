//go:build unix

package transport_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"sidenote/proxy/transport"
)

// If a client leaves, only its own request ends, although clients share the connections to the
// upstream.
func TestLeavingEndsOneRequest(t *testing.T) {
	const clients, leaving, staying = 4, 50, 200 // clients of each kind; requests of one that leaves, of one that stays
	for name, look := range looks() {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
				for {
					head, _, err := readMessage(br)
					if err != nil {
						return
					}
					if strings.HasPrefix(head, "GET /never ") {
						continue
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			u := newUpstream(t, o.config(""))
			f := look.relaying(t, u, clients*(leaving+staying))
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range leaving {
						c := dial(t, f.addr)
						_, _ = io.WriteString(c, get)
						_, _, _ = readMessage(c.br)
						_, _ = io.WriteString(c, strings.Replace(get, "/", "/never", 1))
						c.Close()
					}
				})
				all.Go(func() {
					c := dial(t, f.addr)
					for range staying {
						_, _ = io.WriteString(c, get)
						if _, body, err := readMessage(c.br); err != nil || body != "ok" {
							t.Errorf("%q, %v", body, err)
							return
						}
					}
				})
			}
			all.Wait()
			for range clients * (leaving + staying) {
				if out := await(t, f.outcomes, "outcome"); out.Err != nil {
					t.Error(out.Err)
				}
			}
			for range clients * leaving {
				if err := await(t, f.errs, "error"); transport.ClassOf(err) != transport.ClientGone {
					t.Errorf("got %v, want %s", err, transport.ClientGone)
				}
			}
		})
	}
}
