package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"sidenote/cmd/sidenote/internal/client/clienttest"
	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/store"
)

// A listener at the address in a lock receives only a challenge until it has proved to be the
// writer.
func TestStrangerGetsNothing(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	proof := `{"object":"proof","proof":"` + strings.Repeat("0", 64) + `"}`
	for name, answer := range map[string]func(net.Conn){
		"another program": clienttest.Answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
		"a wrong proof":   clienttest.Answering(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(proof), proof)),
		"no proof":        clienttest.Answering(head + "Content-Length: 2\r\n\r\n{}"),
		"no HTTP":         clienttest.Answering("220 mail.example ESMTP\r\n"),
		"too much":        clienttest.Answering(head + "\r\n" + strings.Repeat("x", 1<<20)),
		"a redirect":      clienttest.Answering("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
		"nothing":         func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) },
	} {
		s := clienttest.NewStranger(t, answer)
		_, who := clienttest.LockedState(t, s.Addr().String())
		if c, err := AdminOfWriter(t.Context(), who, "t0ken", new(Certificate)); c != nil || !errors.Is(err, ErrUnproven) {
			t.Errorf("%s: %v", name, err)
		}
		s.Heard(t, name, true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := clienttest.NewStranger(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		cancel() // the caller gives up
		_, _ = io.Copy(io.Discard, c)
	})
	_, who := clienttest.LockedState(t, s.Addr().String())
	if _, err := AdminOfWriter(ctx, who, "t0ken", new(Certificate)); !errors.Is(err, context.Canceled) {
		t.Errorf("one that is silent: %v", err)
	}
}

// A stranger that relays the challenge to the writer gets no token either: the proof is for the
// address that was called. Each connection needs a new proof.
func TestProofCannotBePassedOn(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0") // another address of the writer
	if err != nil {
		t.Fatal(err)
	}
	ln := &takenListener{Listener: inner}
	state, who := clienttest.LockedState(t, ln.Addr().String())
	h := &admin.Handler{StateToken: func() (string, error) { return store.AdminToken(state) }}
	server := admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))
	served := make(chan error, 2)
	for _, l := range []net.Listener{ln, other} {
		go func() { served <- server.Serve(l) }()
	}
	defer func() {
		if err := errors.Join(server.Shutdown(context.Background()), <-served, <-served); err != nil {
			t.Error(err)
		}
	}()
	s := clienttest.NewStranger(t, func(c net.Conn) { passOn(c, other.Addr()) })
	c, err := AdminOfWriter(t.Context(), who, "t0ken", new(Certificate))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), "GET", "/v1/nothing", nil, nil); err == nil || err.Error() != "There is nothing at /v1/nothing" {
		t.Errorf("the writer answers %v", err)
	}
	ln.taken.Store(s) // which has the writer's address now
	if err := c.Do(t.Context(), "GET", "/v1/nothing", nil, nil); !errors.Is(err, ErrUnproven) {
		t.Errorf("the stranger answers %v", err)
	}
	s.Heard(t, "passed on", true)
	who.Address = s.Addr().String()
	if _, err := AdminOfWriter(t.Context(), who, "t0ken", new(Certificate)); !errors.Is(err, ErrUnproven) {
		t.Errorf("the stranger is %v", err)
	}
	s.Heard(t, "passed on", true)
}

// A takenListener hands connections to a stranger once that has taken over its address.
type takenListener struct {
	net.Listener
	taken atomic.Pointer[clienttest.Impostor]
}

func (l *takenListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		s := l.taken.Load()
		if err != nil || s == nil {
			return c, err
		}
		go func() { passOn(c, s.Addr()); _ = c.Close() }()
	}
}

// passOn relays what a client sends to a listener, and the answers back.
func passOn(c net.Conn, to net.Addr) {
	onward, err := net.Dial(to.Network(), to.String())
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(onward, c); _ = onward.Close() }()
	_, _ = io.Copy(c, onward)
}
