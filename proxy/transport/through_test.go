package transport_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// upper passes on upper-case text, one piece late, so that something is left for Close.
type upper struct {
	to   io.Writer
	held []byte
	err  error
}

func (u *upper) Write(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	last := u.held
	u.held = bytes.ToUpper(p)
	_, err := u.to.Write(last)
	return len(p), err
}

func (u *upper) Close() error {
	if len(u.held) == 0 {
		return nil
	}
	_, err := u.to.Write(u.held)
	return err
}

// A filtered body is what the filter writes, whatever length was announced; the trailer stays. An
// error of the filter, and a truncated answer, cut the client's answer.
func TestThrough(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		answer, want string
		err          error
		cut          bool
	}{
		"length":     {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nan ansW", "AN ANSW", nil, false},
		"chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "ABCDE", nil, false},
		"to the end": {"HTTP/1.1 200 OK\r\n\r\nabc", "ABC", nil, false},
		"empty":      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", nil, false},
		"cut":        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "ABC", nil, true},
		"it fails":   {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "", broken, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
				if _, _, err := readMessage(br); err == nil {
					_, _ = io.WriteString(conn, c.answer)
				}
			})
			u := newUpstream(t, o.config(""))
			tapped := ""
			addr := serve(t, func(ctx *fasthttp.RequestCtx) {
				answer, err := do(ctx, u, transport.Call{})
				if err != nil {
					t.Error(err)
					return
				}
				answer.Relay(ctx, transport.Relay{
					OnPiece: func(p []byte) { tapped += string(p) },
					Filter:  func(w io.Writer) io.WriteCloser { return &upper{to: w, err: c.err} },
				})
			}, transport.ServerOptions{})
			resp, err := http.Get("http://" + addr + "/")
			if err != nil {
				if !c.cut {
					t.Error(err)
				}
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if string(body) != c.want || (err != nil) != c.cut || resp.ContentLength > 0 {
				t.Errorf("got %q, %v, length %d", body, err, resp.ContentLength)
			}
			if !strings.EqualFold(tapped, c.want) && c.err == nil {
				t.Errorf("the tap got %q", tapped)
			}
		})
	}
}
