//go:build unix

package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// A secured is a TLS server and what its clients need.
type secured struct {
	addr      string
	authority *transporttest.Authority
	pair      tls.Certificate
}

// serveTLS serves h with TLS; clients may present a certificate of the same authority.
func serveTLS(t *testing.T, h fasthttp.RequestHandler, o transport.ServerOptions) secured {
	t.Helper()
	s := secured{authority: transporttest.NewAuthority()}
	s.pair = s.authority.Issue(time.Now().Add(time.Hour), "client.test").TLS()
	settings := &tls.Config{Certificates: []tls.Certificate{s.pair}, ClientCAs: s.authority.Pool, ClientAuth: tls.VerifyClientCertIfGiven} //nolint:gosec // a test's
	ln := &transport.Listener{Listener: listen(t), Tenant: "acme", TLS: settings}
	s.addr = ln.Addr().String()
	o.ErrorBody = errorBody
	server := transport.NewServer(h, o)
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-stopped
	})
	return s
}

// dial connects a client, with or without a certificate.
func (s secured) dial(t *testing.T, version uint16, certificate bool) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	c := &tls.Config{RootCAs: s.authority.Pool, ServerName: "127.0.0.1", MaxVersion: version} //nolint:gosec // a test's
	if certificate {
		c.Certificates = []tls.Certificate{s.pair}
	}
	conn, err := tls.Dial("tcp", s.addr, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.NetConn().Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

var versions = []uint16{tls.VersionTLS12, tls.VersionTLS13}

// Over TLS, requests and answers are byte for byte the same as over TCP: pipelined, chunked, large,
// uploads and downloads.
func TestServedTLSIsExact(t *testing.T) {
	var wide strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&wide, "%d\x00\xff", i*i)
	}
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) { // echoes
		for {
			_, body, err := readMessage(br)
			if err != nil {
				return
			}
			if len(body)%2 == 0 {
				_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			} else {
				_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
			if err != nil {
				return
			}
		}
	})
	u := newUpstream(t, o.config(""))
	s := serveTLS(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := do(ctx, u, transport.Call{})
		if err != nil {
			t.Error(err)
			return
		}
		answer.Relay(ctx, transport.Relay{})
	}, transport.ServerOptions{})
	for _, version := range versions {
		conn, br := s.dial(t, version, false)
		bodies := []string{"a", "", "bc", wide.String()[:100_001], wide.String(), "last"}
		sent := make(chan error, 1)
		go func() {
			var out bytes.Buffer
			for _, body := range bodies {
				fmt.Fprintf(&out, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
			_, err := conn.Write(out.Bytes())
			sent <- err
		}()
		for i, body := range bodies {
			head, got, err := readMessage(br)
			if err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || got != body {
				t.Fatalf("%s, answer %d: %q with %d bytes, %v; want %d bytes", tls.VersionName(version), i, head, len(got), err, len(body))
			}
		}
		if err := await(t, sent, "writes"); err != nil {
			t.Error(err)
		}
	}
}

// C2: a client that leaves a stream over TLS, with or without a close message, frees the upstream.
func TestServedTLSHangup(t *testing.T) {
	for name, leave := range map[string]func(*tls.Conn){
		"close":        func(c *tls.Conn) { _ = c.Close() },
		"without word": func(c *tls.Conn) { _ = c.NetConn().Close() },
		"reset":        func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); _ = c.NetConn().Close() },
	} {
		for way, look := range looks() {
			if name == "close" && way == "portable" {
				continue // the end behind the last TLS message is not seen; the next write notices it
			}
			for _, version := range versions {
				t.Run(name+", "+way+", "+tls.VersionName(version), func(t *testing.T) {
					ended := make(chan struct{})
					o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
						if _, _, err := readMessage(br); err != nil {
							return
						}
						_, _ = io.WriteString(c, streamed)
						_, _ = br.ReadByte()
						close(ended)
					})
					u := newUpstream(t, o.config(""))
					var options transport.ServerOptions
					look(u, &options)
					outcomes := make(chan transport.Outcome, 1)
					s := serveTLS(t, func(ctx *fasthttp.RequestCtx) {
						answer, err := do(ctx, u, transport.Call{})
						if err != nil {
							t.Error(err)
							return
						}
						answer.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { outcomes <- o }})
					}, options)
					conn, br := s.dial(t, version, false)
					_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
					for line := ""; line != "ab\r\n"; {
						var err error
						if line, err = br.ReadString('\n'); err != nil {
							t.Fatal(err)
						}
					}
					leave(conn)
					await(t, ended, "end at the upstream")
					if got := await(t, outcomes, "outcome"); transport.ClassOf(got.Err) != transport.ClientGone {
						t.Errorf("got %v", got.Err)
					}
				})
			}
		}
	}
}

// The handler knows the connection's peer: the tenant of its port, and the names of a certificate
// only if it was verified.
func TestPeerOf(t *testing.T) {
	s := serveTLS(t, func(ctx *fasthttp.RequestCtx) {
		p := transport.PeerOf(ctx)
		ctx.SetBodyString(p.Tenant + " " + strings.Join(p.Certificates(), ","))
	}, transport.ServerOptions{})
	for _, version := range versions {
		for certificate, want := range map[bool]string{true: "acme client.test,test", false: "acme "} {
			conn, br := s.dial(t, version, certificate)
			for range 2 {
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				if _, body, err := readMessage(br); err != nil || body != want {
					t.Errorf("got %q, %v; want %q", body, err, want)
				}
			}
		}
	}
	plain := serve(t, func(ctx *fasthttp.RequestCtx) {
		p := transport.PeerOf(ctx)
		ctx.SetBodyString(fmt.Sprintf("%q %q", p.Tenant, p.Certificates()))
	}, transport.ServerOptions{})
	c := dial(t, plain)
	c.send(get)
	if _, body := c.message(); body != `"" []` {
		t.Errorf("a plain port says %s", body)
	}
}

// A stalled handshake, bytes that are not a handshake, and an untrusted certificate: the connection
// is closed, and no request is served. (Slowloris)
func TestServedTLSRefuses(t *testing.T) {
	s := serveTLS(t, func(*fasthttp.RequestCtx) { t.Error("a request was served") }, transport.ServerOptions{Read: 200 * time.Millisecond})
	for _, beginning := range []string{"", "\x16\x03\x01", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", strings.Repeat("\x00", 70_000)} {
		conn := dial(t, s.addr)
		_, _ = io.WriteString(conn, beginning) // an error is the close that is waited for
		if b, err := io.ReadAll(conn); slices.Contains([]string{"", "\x16\x03\x01"}, beginning) && err != nil || bytes.Contains(b, []byte("HTTP")) {
			t.Errorf("%.10q: got %q, %v", beginning, b, err)
		}
	}
	stranger := transporttest.NewAuthority().Issue(time.Now().Add(time.Hour)).TLS()
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.authority.Pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{stranger}, //nolint:gosec // a test's
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }})
	if err == nil { // with TLS 1.3 the client learns of it when it reads
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "tls") {
		t.Errorf("a stranger's certificate gives %v", err)
	}
	idle, br := s.dial(t, tls.VersionTLS13, false) // a handshake, and then no request
	if _, err := br.ReadByte(); err == nil {
		t.Error("a client without a request got an answer")
	}
	_ = idle.Close()
}
