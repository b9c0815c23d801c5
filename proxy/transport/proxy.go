package transport

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	socks "golang.org/x/net/proxy"

	"sidenote/proxy/panics"
)

// A Proxy opens connections to upstreams: an HTTP proxy by CONNECT, whether or not the
// upstream speaks TLS, or a SOCKS5 proxy, which also looks up names. Its credentials are
// never printed.
type Proxy struct {
	scheme, address string // http or socks5; host:port
	login           *url.Userinfo
}

// ParseProxy reads http://[user:password@]host[:port] or socks5://…. The ports are 80 and
// 1080 where none is given. No error repeats the text, which may hold a password.
func ParseProxy(text string) (*Proxy, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errProxy
	}
	ports := map[string]string{"http": "80", "socks5": "1080", "socks5h": "1080"}
	port, known := ports[u.Scheme]
	switch {
	case u.Scheme == "https":
		return nil, errors.New("is a proxy that wants TLS itself, which is not supported; use its http:// or socks5:// port")
	case !known || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errProxy
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return nil, errors.New("has no port between 1 and 65535")
	}
	p := &Proxy{scheme: u.Scheme, address: net.JoinHostPort(u.Hostname(), port), login: u.User}
	if u.Scheme == "socks5h" {
		p.scheme = "socks5" // names are looked up by the proxy in both
	}
	return p, nil
}

var errProxy = errors.New("is not the URL of a proxy; write it as in http://proxy.example.com:3128 or socks5://proxy.example.com")

// HasLogin tells whether the URL of the proxy holds credentials.
func (p *Proxy) HasLogin() bool { return p.login != nil }

// ProxyFromEnvironment returns the proxy that HTTPS_PROXY and NO_PROXY, or their names in lower
// case, say for an https upstream. nil is none: for loopback, for plain http, and where
// NO_PROXY says so. env looks up a variable.
func ProxyFromEnvironment(upstream *url.URL, env func(name string) (string, bool)) (*Proxy, error) {
	if upstream.Scheme != "https" {
		return nil, nil
	}
	either := func(name, lower string) string {
		if text, _ := env(name); text != "" {
			return text
		}
		text, _ := env(lower)
		return text
	}
	text := either("HTTPS_PROXY", "https_proxy")
	if text == "" {
		return nil, nil
	}
	// The library only decides whether there is a proxy: it takes one that it cannot read for none.
	c := httpproxy.Config{HTTPSProxy: "http://proxy.invalid", NoProxy: either("NO_PROXY", "no_proxy")}
	if u, err := c.ProxyFunc()(upstream); u == nil || err != nil {
		return nil, err
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	return ParseProxy(text)
}

// String returns the URL of the proxy, with *** for credentials.
func (p *Proxy) String() string {
	if p.login != nil {
		return p.scheme + "://***@" + p.address
	}
	return p.scheme + "://" + p.address
}

// GoString is String, for %#v.
func (p *Proxy) GoString() string { return p.String() }

// dial opens a connection to address through p. Its errors say that they are of the proxy.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	var conn net.Conn
	var err error
	if p.scheme == "socks5" {
		conn, err = p.socks(ctx, address)
	} else {
		conn, err = p.connect(ctx, address)
	}
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", p, err)
	}
	return conn, nil
}

// socks opens a connection by SOCKS5. What the library returns hides the TCP connection, so
// that is kept when it is dialed.
func (p *Proxy) socks(ctx context.Context, address string) (net.Conn, error) {
	var auth *socks.Auth
	if p.login != nil {
		password, _ := p.login.Password()
		auth = &socks.Auth{User: p.login.Username(), Password: password}
	}
	below := new(kept)
	through, err := socks.SOCKS5("tcp", p.address, auth, below)
	if err != nil {
		return nil, err
	}
	if _, err := through.(socks.ContextDialer).DialContext(ctx, "tcp", address); err != nil {
		return nil, err
	}
	return below.conn, nil
}

// kept dials and keeps the connection.
type kept struct{ conn net.Conn }

// Dial implements the Dialer of the library.
func (k *kept) Dial(network, address string) (net.Conn, error) {
	return k.DialContext(context.Background(), network, address)
}

// DialContext implements the ContextDialer of the library.
func (k *kept) DialContext(ctx context.Context, network, address string) (_ net.Conn, err error) {
	k.conn, err = new(net.Dialer).DialContext(ctx, network, address)
	return k.conn, err
}

// maxHead bounds the head of a proxy's answer, in bytes.
const maxHead = 64 << 10

// connect opens a connection by CONNECT. It ends with ctx.
func (p *Proxy) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	stop := panics.AfterEnd(ctx, nil, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = p.ask(conn, address)
	if !stop() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// ask sends CONNECT and reads the answer.
func (p *Proxy) ask(conn net.Conn, address string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if p.login != nil {
		password, _ := p.login.Password()
		login := base64.StdEncoding.EncodeToString([]byte(p.login.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+login)
	}
	req.Header.Set("User-Agent", "") // sends none
	if err := req.Write(conn); err != nil {
		return err
	}
	br := bufio.NewReader(io.LimitReader(conn, maxHead))
	resp, err := http.ReadResponse(br, req)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("connection closed without an answer")
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("answered %d to CONNECT %s", resp.StatusCode, address)
	case br.Buffered() > 0:
		return errors.New("sent more than an answer to CONNECT")
	}
	return nil
}
