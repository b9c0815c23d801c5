package mcp_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// A raw is a raw connection to a rig.
type raw struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

func (r *rig) dial(t *testing.T) *raw {
	t.Helper()
	c, err := net.Dial("tcp", r.port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if r.port.TLS != nil {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test's
	}
	return &raw{c, t, bufio.NewReader(c)}
}

func (c *raw) send(head, body string) {
	_, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2025-11-25\r\n"+head+"\r\n"+body)
	if err != nil {
		c.t.Log(err) // what is read says more
	}
}

// answer reads an answer; its status is 0 if the connection has ended.
func (c *raw) answer() (status int, body string, head http.Header) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return 0, "", nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// busy returns a connection with a request in progress: the server waits for its body.
func (r *rig) busy(t *testing.T) *raw {
	t.Helper()
	for {
		c := r.dial(t)
		c.send("Authorization: Bearer k-staff\r\nExpect: 100-continue\r\nContent-Length: 9\r\n", "")
		switch status, body, _ := c.answer(); status {
		case http.StatusContinue:
			return c
		case http.StatusServiceUnavailable, 0: // the server has not noticed yet that others are idle
			_ = c.Close()
		default:
			t.Fatal(status, body)
		}
	}
}

// Connections of callers without a key, and idle ones, make room for others. Only if all are
// serving requests is one more refused, at once.
func TestFullPortMakesRoom(t *testing.T) {
	for _, secure := range []bool{false, true} {
		shed := make(chan string, 1000)
		r := newRig(t, func(r *rig) {
			r.options.Connections, r.options.Shed = 3, func(reason string) {
				select {
				case shed <- reason:
				default: // busy may be refused many times
				}
			}
			if secure {
				r.port.TLS = &tls.Config{Certificates: []tls.Certificate{transporttest.NewAuthority().Issue(time.Now().Add(time.Hour), "127.0.0.1").TLS()}} //nolint:gosec // a test's
			}
		})
		var strangers []*raw
		for range 3 {
			c := r.dial(t)
			c.send("Content-Length: 2\r\n", "{}")
			if status, body, _ := c.answer(); status != 401 {
				t.Fatal(status, body)
			}
			strangers = append(strangers, c)
		}
		for range 3 {
			r.busy(t)
		}
		for _, c := range strangers {
			if _, err := c.br.ReadByte(); err == nil {
				t.Error("a refused connection is open")
			}
		}
		for len(shed) > 0 {
			if reason := <-shed; reason != transport.ShedIdle && reason != transport.ShedConnections {
				t.Errorf("shed for %s", reason)
			}
		}
		c := r.dial(t)
		c.send("Authorization: Bearer k-staff\r\nContent-Length: 2\r\n", "{}")
		status, body, head := c.answer()
		switch {
		case secure && status != 0:
			t.Errorf("a connection beyond the limit got %d %s", status, body)
		case !secure && (status != 503 || head.Get("Retry-After") != "1" || !strings.Contains(body, `"type":"server_error"`) || !strings.Contains(body, `"code":"overloaded"`)):
			t.Errorf("a connection beyond the limit got %d %v %s", status, head, body)
		}
		if reason := <-shed; reason != transport.ShedConnections {
			t.Errorf("shed for %s", reason)
		}
	}
}

// One address cannot exceed its maximum of connections.
func TestConnectionsPerAddress(t *testing.T) {
	r := newRig(t, func(r *rig) { r.options.Addresses = &transport.Addresses{MaxConnections: 2} })
	r.busy(t)
	second := r.busy(t)
	c := r.dial(t)
	c.send("Authorization: Bearer k-staff\r\nContent-Length: 2\r\n", "{}")
	if status, body, _ := c.answer(); status != 503 || !strings.Contains(body, `"code":"too_many_connections"`) {
		t.Errorf("got %d %s", status, body)
	}
	_ = second.Close()
	r.busy(t) // when the server has noticed
}
