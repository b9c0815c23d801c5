// Package clienttest provides listeners that are not the admin port that a client expects, for
// tests.
package clienttest

import (
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// An Impostor is a listener that is not the writer of a state folder. It records everything it
// receives.
type Impostor struct {
	net.Listener
	mu   sync.Mutex
	text strings.Builder
}

// NewStranger listens on a free port until the test ends and calls answer for each connection.
func NewStranger(t *testing.T, answer func(net.Conn)) *Impostor {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Impostor{Listener: ln}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { answer(recorded{c, s}); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return s
}

// A recorded is a connection whose reads are recorded by an Impostor.
type recorded struct {
	net.Conn
	by *Impostor
}

func (c recorded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.text.Write(p[:n])
	return n, err
}

// Heard checks that s received challenges if asked is true, and nothing else.
func (s *Impostor) Heard(t *testing.T, what string, asked bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.String()
	s.text.Reset()
	rest := regexp.MustCompile(`(?s)GET /v1/proof\?challenge=[0-9a-f]{64} HTTP/1.1\r\nHost: [0-9.:]+\r\n\r\n`).ReplaceAllString(text, "")
	if rest != "" || asked != (text != "") {
		t.Errorf("%s: sent %q", what, text)
	}
}

// Answering returns a handler that answers each request with the same text.
func Answering(text string) func(net.Conn) {
	return func(c net.Conn) {
		buffer := make([]byte, 4096)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

// LockedState creates a state folder that this process writes, with address as that of its admin
// port.
func LockedState(t *testing.T, address string) (state string, who *store.LockedError) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	s, err := store.Open(t.Context(), state, store.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return state, store.Writer(state)
}
