package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// ReplyWith sends the head of an answer early, and what is written replaces the body, which can be
// read meanwhile. An error cuts the client's answer.
func TestLead(t *testing.T) {
	for name, broken := range map[string]error{"whole": nil, "broken": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			headSeen := make(chan struct{})
			o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
				if _, _, err := readMessage(br); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: application/json\r\nX-Own: a\r\n\r\n")
					<-headSeen
					_, _ = io.WriteString(conn, "first")
				}
			})
			u := newUpstream(t, o.config(""))
			outcomes := make(chan transport.Outcome, 1)
			addr := serve(t, func(ctx *fasthttp.RequestCtx) {
				answer, err := do(ctx, u, transport.Call{})
				if err != nil {
					t.Error(err)
					return
				}
				answer.ReplyWith(ctx, transport.Relay{
					Replace: []transport.Header{{Name: "Content-Type", Value: "text/event-stream"}},
					Done:    func(o transport.Outcome) { outcomes <- o },
				}, func(w *transport.ReplyWriter) error {
					if err := w.Flush(); err != nil {
						return err
					}
					body, err := io.ReadAll(answer)
					answer.Close()
					_, writeErr := w.Write(append(body, " and second"...))
					return errors.Join(err, writeErr, broken)
				})
			}, transport.ServerOptions{})
			resp, err := http.Get("http://" + addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			close(headSeen) // the body waits for this
			if h := resp.Header; h.Get("Content-Type") != "text/event-stream" || h.Get("X-Own") != "a" || resp.ContentLength != -1 {
				t.Errorf("head %v, length %d", h, resp.ContentLength)
			}
			body, err := io.ReadAll(resp.Body)
			if string(body) != "first and second" || (err != nil) != (broken != nil) {
				t.Errorf("body %q, error %v", body, err)
			}
			if got := <-outcomes; got.Bytes != int64(len("first and second")) || (got.Err != nil) != (broken != nil) {
				t.Errorf("outcome %+v", got)
			}
			if broken == nil && u.Busy() != 0 {
				t.Error("the connection is still taken")
			}
		})
	}
}

// An expired context deadline counts as an upstream timeout, before an answer and within it. The
// client is still there and gets an answer.
func TestDeadline(t *testing.T) {
	for name, answer := range map[string]string{"no head": "", "no body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
				if _, _, err := readMessage(br); err == nil {
					_, _ = io.WriteString(conn, answer)
					<-over
				}
			})
			t.Cleanup(func() { close(over) })
			u := newUpstream(t, o.config(""))
			want := transport.FirstByteTimeout
			if answer != "" {
				want = transport.IdleTimeout
			}
			addr := serve(t, func(ctx *fasthttp.RequestCtx) {
				life, cancel := context.WithCancelCause(transport.Watch(ctx, context.Background()))
				defer cancel(nil)
				late := func() *time.Timer {
					return time.AfterFunc(10*time.Millisecond, func() { cancel(context.DeadlineExceeded) })
				}
				if answer == "" {
					defer late().Stop()
				}
				got, err := u.Do(life, transport.Call{Head: transport.Capture(ctx)})
				if err == nil {
					defer late().Stop()
					_, err = got.Read(make([]byte, 5))
					got.Close()
				}
				if late, ok := errors.AsType[*transport.Error](err); !ok || late.Class != want || !late.Timeout() {
					t.Errorf("error %v", err)
				}
				ctx.SetBodyString("late")
			}, transport.ServerOptions{})
			resp, err := http.Get("http://" + addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if body, err := io.ReadAll(resp.Body); strings.TrimSpace(string(body)) != "late" || err != nil {
				t.Errorf("body %q, error %v", body, err)
			}
		})
	}
}
