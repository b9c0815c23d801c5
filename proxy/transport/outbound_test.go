package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// Proxy URLs are parsed strictly, and neither errors nor formatting reveal the password.
func TestParseProxy(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy.test:3128":             "http://proxy.test:3128",
		"http://proxy.test/":                 "http://proxy.test:80",
		"http://me:canary@proxy.test:3128":   "http://***@proxy.test:3128",
		"socks5://proxy.test":                "socks5://proxy.test:1080",
		"socks5h://me:canary@proxy.test":     "socks5://***@proxy.test:1080",
		"http://[::1]:1":                     "http://[::1]:1",
		"https://me:canary@proxy.test":       "is a proxy reached over TLS",
		"proxy.test:3128":                    "is not the URL of a proxy",
		"http://me:canary@proxy.test/path":   "is not the URL of a proxy",
		"http://me:canary@proxy.test:0":      "has no port",
		"http://me:canary@proxy.test:70000":  "has no port",
		"http://me:canary@proxy.test:3128?x": "is not the URL of a proxy",
		"http://me:can\x7fary@proxy.test":    "is not the URL of a proxy",
		"ftp://proxy.test":                   "is not the URL of a proxy",
		"":                                   "is not the URL of a proxy",
	} {
		p, err := transport.ParseProxy(text)
		got := fmt.Sprintf("%v %+v %#v", p, p, p)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%q gives %s", text, got)
		}
	}
}

// HTTPS_PROXY and NO_PROXY determine the proxy of an https upstream; loopback has none.
func TestFromEnvironment(t *testing.T) {
	for _, c := range []struct{ upstream, vars, want string }{
		{"https://api.test/v1", "HTTPS_PROXY=http://p.test:1", "http://p.test:1"},
		{"https://api.test/v1", "https_proxy=p.test:1", "http://p.test:1"},
		{"https://api.test/v1", "HTTPS_PROXY=http://p.test:1 NO_PROXY=other.test,.api.test,api.test", "none"},
		{"https://api.test/v1", "HTTPS_PROXY=http://p.test:1 no_proxy=*", "none"},
		{"https://api.test/v1", "HTTP_PROXY=http://p.test:1", "none"},
		{"http://api.test/v1", "HTTPS_PROXY=http://p.test:1 HTTP_PROXY=http://p.test:1", "none"},
		{"https://127.0.0.1/v1", "HTTPS_PROXY=http://p.test:1", "none"},
		{"https://localhost:8443/v1", "HTTPS_PROXY=http://p.test:1", "none"},
		{"https://[::1]/v1", "HTTPS_PROXY=http://p.test:1", "none"},
		{"https://api.test/v1", "HTTPS_PROXY=https://me:canary@p.test:1", "is a proxy reached over TLS"},
		{"https://api.test/v1", "HTTPS_PROXY=http://me:can%ary@p.test:1", "is not the URL of a proxy"},
	} {
		vars := map[string]string{}
		for _, v := range strings.Fields(c.vars) {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		upstream, err := url.Parse(c.upstream)
		if err != nil {
			t.Fatal(err)
		}
		p, err := transport.ProxyFromEnvironment(upstream, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		got := "none"
		switch {
		case err != nil:
			got = err.Error()
		case p != nil:
			got = p.String()
		}
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "canary") {
			t.Errorf("%s with %s: got %s, want %s", c.upstream, c.vars, got, c.want)
		}
	}
}

// listener calls serve for each connection to a port that it opens.
func listener(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // a test's
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// relay copies between two connections until both have ended.
func relay(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(a, b)
		_ = a.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(b, a)
	_ = b.(*net.TCPConn).CloseWrite()
	<-done
}

// Through a proxy, TLS is with the upstream, and the upstream's certificate counts; the proxy gets
// its credentials and the upstream's address. (FAULTS U: the upstream cannot be reached.)
func TestProxies(t *testing.T) {
	authority := transporttest.NewAuthority()
	pair := authority.Issue(time.Now().Add(time.Hour)).TLS()
	upstream := listener(t, func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authority.Pool, ClientAuth: tls.RequireAndVerifyClientCert}) //nolint:gosec // a test's
		_, _ = io.Copy(secure, secure)
	})
	asked := make(chan string, 1)
	httpProxy := listener(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		asked <- req.Method + " " + req.RequestURI + " " + req.Header.Get("Proxy-Authorization")
		to, err := net.Dial("tcp", req.RequestURI)
		if err != nil {
			return
		}
		defer to.Close() //nolint:errcheck // a test's
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		relay(conn, to)
	})
	socksProxy := listener(t, func(conn net.Conn) {
		b := make([]byte, 512)
		n, _ := conn.Read(b) // methods
		if n < 3 || b[0] != 5 {
			return
		}
		_, _ = conn.Write([]byte{5, 2})
		n, _ = conn.Read(b) // name and password
		login := string(b[2:2+b[1]]) + ":" + string(b[3+b[1]:n])
		_, _ = conn.Write([]byte{1, 0})
		n, _ = conn.Read(b) // the request, to an IPv4 address
		if n != 10 {
			return
		}
		address := net.JoinHostPort(net.IP(b[4:8]).String(), fmt.Sprint(int(b[8])<<8|int(b[9])))
		asked <- "SOCKS " + address + " " + login
		to, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer to.Close() //nolint:errcheck // a test's
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		relay(conn, to)
	})
	for proxy, want := range map[string]string{
		"http://me:secret@" + httpProxy:    "CONNECT " + upstream + " Basic bWU6c2VjcmV0",
		"http://" + httpProxy:              "CONNECT " + upstream + " ",
		"socks5://me:secret@" + socksProxy: "SOCKS " + upstream + " me:secret",
	} {
		p, err := transport.ParseProxy(proxy)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			options transport.OutboundOptions
			err     string
		}{
			"trusted":            {transport.OutboundOptions{Proxy: p, RootCAs: authority.Pool, Certificates: []tls.Certificate{pair}}, ""},
			"other authority":    {transport.OutboundOptions{Proxy: p, RootCAs: transporttest.NewAuthority().Pool, Certificates: []tls.Certificate{pair}}, "unknown authority"},
			"no own certificate": {transport.OutboundOptions{Proxy: p, RootCAs: authority.Pool}, "certificate required"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			conn, _, err := c.options.Conn(ctx, upstream, c.options.TLS("127.0.0.1"), nil)
			if got := <-asked; got != want {
				t.Errorf("the proxy was asked for %q, want %q", got, want)
			}
			if err == nil {
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				if _, err = io.WriteString(conn, "echo"); err == nil {
					b := make([]byte, 4)
					if _, err = io.ReadFull(conn, b); err == nil && string(b) != "echo" {
						t.Errorf("got %q", b)
					}
				}
				_ = conn.Close()
			}
			if text := fmt.Sprint(err); c.err == "" && err != nil || !strings.Contains(text, c.err) {
				t.Errorf("%s: %v", name, err)
			}
			if c.err == "unknown authority" && !errors.Is(err, transport.ErrTLS) {
				t.Errorf("%s: not of TLS: %v", name, err)
			}
			cancel()
		}
	}
}

// A proxy that refuses, misbehaves or hangs causes an error that names the proxy, in time.
func TestProxyFails(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 6\r\n\r\ncanary": "answered 407 to CONNECT api.test:443",
		"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\ncanary":                          "sent more than an answer",
		"":                             "without an answer",
		"canary\r\n\r\n":               "malformed",
		strings.Repeat("x", 100_000):   "",
		"HTTP/1.1 200 OK\r\nhang: yes": "deadline",
	} {
		address := listener(t, func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, answer)
			if strings.Contains(answer, "hang") {
				_, _ = io.Copy(io.Discard, conn)
			}
		})
		p, err := transport.ParseProxy("http://me:canary@" + address)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = transport.OutboundOptions{Proxy: p}.DialContext(ctx, "tcp", "api.test:443")
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "proxy http://***@"+address) {
			t.Errorf("%.20q: %v", answer, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") && !strings.HasPrefix(answer, "canary") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}
