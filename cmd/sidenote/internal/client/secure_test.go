package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/client/clienttest"
	"sidenote/proxy/admin"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
	"sidenote/retrieval/knowledge/store"
)

// serveWriter serves the admin port of the process that writes a state folder.
func serveWriter(t *testing.T, ln net.Listener, state string) {
	t.Helper()
	h := &admin.Handler{StateToken: func() (string, error) { return store.AdminToken(state) }}
	server := admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		_ = ln.Close() // a server without calls may not have started, and then does not close it
		<-served
	})
}

// files writes files into a new folder, and returns a function from their names to paths.
func files(t *testing.T, contents map[string][]byte) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

const nothing = "There is nothing at /v1/nothing"

// asked returns the writer's response to a client, or why there is none.
func asked(t *testing.T, who *store.LockedError, shown *Certificate) error {
	t.Helper()
	c, err := AdminOfWriter(t.Context(), who, "t0ken", shown)
	if err != nil {
		return err
	}
	return c.Do(t.Context(), "GET", "/v1/nothing", nil, nil)
}

// T09, T14: a writer with TLS is authenticated by its proof, whatever its certificate. A proxy
// that terminates TLS and relays the challenge is not accepted; one that relays the bytes learns
// nothing.
func TestWriterBehindTLS(t *testing.T) {
	authority := transporttest.NewAuthority()
	expired, other := authority.Issue(time.Now().Add(-time.Hour)), transporttest.NewAuthority().Issue(time.Now().Add(time.Hour))
	path := files(t, map[string][]byte{"cert.pem": expired.Cert, "key.pem": expired.Key})
	settings, err := transport.ListenerTLS(transport.CertificateFiles{Cert: path("cert.pem"), Key: path("key.pem")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	state, who := clienttest.LockedState(t, "https://"+ln.Addr().String())
	serveWriter(t, &transport.Listener{Listener: ln, TLS: settings}, state)
	if err := asked(t, who, new(Certificate)); err == nil || err.Error() != nothing {
		t.Errorf("the writer answers %v", err)
	}
	who.Address = ln.Addr().String()
	if err := asked(t, who, new(Certificate)); !errors.Is(err, ErrUnproven) {
		t.Errorf("asked without TLS: %v", err)
	}

	between, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	go func() {
		plain, err := between.Accept()
		if err != nil {
			return
		}
		defer func() { _ = plain.Close() }()
		in := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{other.TLS()}})     //nolint:gosec // a test's
		out, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test's
		if err != nil {
			close(heard)
			return
		}
		go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		var said strings.Builder
		_, _ = io.Copy(io.MultiWriter(out, &said), in)
		_ = out.Close()
		heard <- said.String()
	}()
	who.Address = "https://" + between.Addr().String()
	if err := asked(t, who, new(Certificate)); !errors.Is(err, ErrUnproven) {
		t.Errorf("somebody between: %v", err)
	}
	if said := <-heard; !strings.HasPrefix(said, "GET /v1/proof?challenge=") || strings.Count(said, "\n") != 3 {
		t.Errorf("somebody between heard %q", said)
	}
	_ = between.Close()
}

// A writer that requests a client certificate gets the given one, or its own if its authority
// issued that for clients too. Without one, the error says which flags to give.
func TestWriterAsksForCertificate(t *testing.T) {
	authority := transporttest.NewAuthority()
	own, foreign := authority.Issue(time.Now().Add(time.Hour)), transporttest.NewAuthority().Issue(time.Now().Add(time.Hour))
	path := files(t, map[string][]byte{"cert.pem": own.Cert, "key.pem": own.Key, "ca.pem": authority.PEM, "foreign.pem": foreign.Cert, "foreign-key.pem": foreign.Key})
	state, who := clienttest.LockedState(t, "")
	for name, c := range map[string]struct {
		served string // whose certificate the port has
		shown  *Certificate
		want   string // prefix of the response, or part of the error
	}{
		"none":              {"cert", new(Certificate), "it asks for a client's certificate: give --admin-cert and --admin-key"},
		"given":             {"cert", &Certificate{Cert: path("cert.pem"), Key: path("key.pem")}, nothing},
		"the port's own":    {"cert", &Certificate{OwnCert: path("cert.pem"), OwnKey: path("key.pem")}, nothing},
		"an own, of others": {"foreign", &Certificate{OwnCert: path("foreign.pem"), OwnKey: path("foreign-key.pem")}, "give --admin-cert and --admin-key"},
		"given, of others":  {"cert", &Certificate{Cert: path("foreign.pem"), Key: path("foreign-key.pem"), OwnCert: path("cert.pem"), OwnKey: path("key.pem")}, "and was shown " + path("foreign.pem")},
		"no file":           {"cert", &Certificate{Cert: path("gone.pem"), Key: path("key.pem")}, "gone.pem"},
		"a key alone":       {"cert", &Certificate{Key: path("key.pem")}, `the certificate "" with the key "` + path("key.pem")},
	} {
		t.Run(name, func(t *testing.T) {
			served := transport.CertificateFiles{Cert: path("cert.pem"), Key: path("key.pem"), ClientCA: path("ca.pem")}
			if c.served == "foreign" {
				served.Cert, served.Key = path("foreign.pem"), path("foreign-key.pem")
			}
			settings, err := transport.ListenerTLS(served, nil)
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			place := "https://" + ln.Addr().String()
			who.Address = place
			serveWriter(t, &transport.Listener{Listener: ln, TLS: settings}, state)
			if err := asked(t, who, c.shown); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the writer: %v", err)
			}
			direct, err := AdminAt(place, "t0ken", served.Cert, "admin.tls.cert", c.shown)
			if err == nil {
				err = direct.Do(t.Context(), "GET", "/v1/nothing", nil, nil)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the port: %v", err)
			}
		})
	}
}

// A port that was named is accepted only with the certificate of the configuration.
func TestNamedPortIsPinned(t *testing.T) {
	authority := transporttest.NewAuthority()
	own, next := authority.Issue(time.Now().Add(time.Hour)), authority.Issue(time.Now().Add(time.Hour))
	path := files(t, map[string][]byte{"cert.pem": own.Cert, "key.pem": own.Key, "next.pem": next.Cert, "none.pem": nil})
	settings, err := transport.ListenerTLS(transport.CertificateFiles{Cert: path("cert.pem"), Key: path("key.pem")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	state, _ := clienttest.LockedState(t, "")
	serveWriter(t, &transport.Listener{Listener: ln, TLS: settings}, state)
	for trusted, want := range map[string]string{
		"cert.pem": nothing,
		"next.pem": "answers with another certificate than that of admin.tls.cert",
		"none.pem": "answers with another certificate than that of admin.tls.cert",
		"gone.pem": "admin.tls.cert: open ",
	} {
		c, err := AdminAt("https://"+ln.Addr().String(), "t0ken", path(trusted), "admin.tls.cert", new(Certificate))
		if err == nil {
			err = c.Do(t.Context(), "GET", "/v1/nothing", nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", trusted, err)
		}
	}
}
