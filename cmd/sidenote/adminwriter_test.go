package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/store"
)

func tokenInEnv(name string) (string, bool) { return "t0ken-of-env", name == "SIDENOTE_ADMIN_TOKEN" }

// A stranger listens and notes all that it is sent. It answers by answer, which it may
// close.
type stranger struct {
	net.Listener
	mu   sync.Mutex
	text strings.Builder
}

func newStranger(t *testing.T, answer func(net.Conn)) *stranger {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{Listener: ln}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { answer(noted{c, s}); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return s
}

// A noted is a connection whose reads a stranger notes.
type noted struct {
	net.Conn
	by *stranger
}

func (c noted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.text.Write(p[:n])
	return n, err
}

// heard checks that the stranger was asked for a proof, if at all, and nothing else.
func (s *stranger) heard(t *testing.T, what string, asked bool) {
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

// answering answers each request with the same text.
func answering(text string) func(net.Conn) {
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

// lockNames lets the lock of a state folder name an address, held or not.
func lockNames(t *testing.T, state, address string) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"pid": os.Getpid(), "host": host, "address": address})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "lock"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// held is a state folder that this process writes, and says that it is at an address.
func held(t *testing.T, address string) (state string, who *store.LockedError) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	s, err := store.Open(t.Context(), state, store.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return state, store.Writer(state)
}

// Where a writer died, nobody is asked at its address.
func TestM05DeadWriterIsNotAsked(t *testing.T) {
	s := newStranger(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	state := filepath.Join(t.TempDir(), "state")
	dead, err := store.Open(t.Context(), state, store.Options{})
	if err == nil {
		err = errors.Join(dead.CreateBase(t.Context(), "kb"), dead.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	lockNames(t, state, s.Addr().String())
	start(t, tokenInEnv, "knowledge", "list", "--state", state).ends(t, exitDone, "kb", "opened for reading "+state)
	s.heard(t, "a read", false)
}

// Who listens at the address of a lock that is held gets nothing but a challenge, until
// it proves to be the writer.
func TestM05StrangerGetsNothing(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	proof := `{"object":"proof","proof":"` + strings.Repeat("0", 64) + `"}`
	for name, answer := range map[string]func(net.Conn){
		"another program": answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
		"a wrong proof":   answering(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(proof), proof)),
		"no proof":        answering(head + "Content-Length: 2\r\n\r\n{}"),
		"no HTTP":         answering("220 mail.example ESMTP\r\n"),
		"too much":        answering(head + "\r\n" + strings.Repeat("x", 1<<20)),
		"a redirect":      answering("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
		"nothing":         func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) },
	} {
		s := newStranger(t, answer)
		_, who := held(t, s.Addr().String())
		if c, err := callWriter(t.Context(), who, "t0ken"); c != nil || !errors.Is(err, errUnproven) {
			t.Errorf("%s: %v", name, err)
		}
		s.heard(t, name, true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := newStranger(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		cancel() // somebody has waited long enough
		_, _ = io.Copy(io.Discard, c)
	})
	_, who := held(t, s.Addr().String())
	if _, err := callWriter(ctx, who, "t0ken"); !errors.Is(err, context.Canceled) {
		t.Errorf("one that is silent: %v", err)
	}
}

// Commands that would change something say so, and send nothing, neither their own
// token nor what they were to write.
func TestM05CommandsSendAStrangerNothing(t *testing.T) {
	s := newStranger(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	state, _ := held(t, s.Addr().String())
	file, docs := written(t, "token", "t0ken-of-file"), handbook(t)
	start(t, noEnv, "knowledge", "put", "kb", filepath.Join(docs, "leave.md"), "--state", state, "--admin-token-file", file).
		ends(t, exitFailed, "", "did not prove to be that process")
	s.heard(t, "a write", true)
	waits := start(t, tokenInEnv, "ingest", "--knowledge", "kb="+docs, "--state", state)
	waits.said.until(t, "did not prove to be that process")
	waits.cancel()
	waits.ends(t, exitFailed, "", "stopped while it waited")
	s.heard(t, "an ingest", true)
}

// A stranger that passes the challenge on to the writer gets no token either: the
// proof is of the address that was asked. On each connection it is asked for anew.
func TestM05ProofCannotBePassedOn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	state, who := held(t, ln.Addr().String())
	h := &admin.Handler{StateToken: func() (string, error) { return store.AdminToken(state) }}
	server := admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() {
		if err := errors.Join(server.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	}()
	s := newStranger(t, func(c net.Conn) {
		to, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
		_, _ = io.Copy(c, to)
	})
	c, err := callWriter(t.Context(), who, "t0ken")
	if err != nil {
		t.Fatal(err)
	}
	var is *adminError
	if err := c.do(t.Context(), "GET", "/v1/nothing", nil, nil); !errors.As(err, &is) || is.status != 404 {
		t.Errorf("the writer answers %v", err)
	}
	c.base = "http://" + s.Addr().String() // as if it had taken the address since
	if err := c.do(t.Context(), "GET", "/v1/nothing", nil, nil); !errors.Is(err, errUnproven) {
		t.Errorf("the stranger answers %v", err)
	}
	s.heard(t, "passed on", true)
	who.Address = s.Addr().String()
	if _, err := callWriter(t.Context(), who, "t0ken"); !errors.Is(err, errUnproven) {
		t.Errorf("the stranger is %v", err)
	}
	s.heard(t, "passed on", true)
}
