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

// A Proxy opens connections to upstreams through an HTTP proxy, by CONNECT even for plain http
// upstreams, or through a SOCKS5 proxy, which also resolves names. Its credentials are never
// printed.
type Proxy struct {
	scheme, address string // http or socks5; host:port
	login           *url.Userinfo
}

// ParseProxy parses http://[user:password@]host[:port] or socks5://…. The default ports are 80 and
// 1080. Errors do not quote the text, because it may contain a password.
func ParseProxy(text string) (*Proxy, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errProxy
	}
	ports := map[string]string{"http": "80", "socks5": "1080", "socks5h": "1080"}
	port, known := ports[u.Scheme]
	switch {
	case u.Scheme == "https":
		return nil, errors.New("is a proxy reached over TLS, which is not supported; use its http:// or socks5:// port")
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
		p.scheme = "socks5" // the proxy resolves names in both
	}
	return p, nil
}

var errProxy = errors.New("is not the URL of a proxy; write it as in http://proxy.example.com:3128 or socks5://proxy.example.com")

// HasLogin reports whether the proxy's URL has credentials.
func (p *Proxy) HasLogin() bool { return p.login != nil }

// ProxyFromEnvironment returns the proxy for an https upstream by HTTPS_PROXY and NO_PROXY, in
// upper or lower case. It returns nil for loopback, for plain http, and if NO_PROXY matches. env
// looks up a variable.
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
	// The library only decides whether a proxy is used, because it ignores proxy URLs that it
	// cannot parse.
	c := httpproxy.Config{HTTPSProxy: "http://proxy.invalid", NoProxy: either("NO_PROXY", "no_proxy")}
	if u, err := c.ProxyFunc()(upstream); u == nil || err != nil {
		return nil, err
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	return ParseProxy(text)
}

// String returns the URL of the proxy with credentials replaced by ***.
func (p *Proxy) String() string {
	if p.login != nil {
		return p.scheme + "://***@" + p.address
	}
	return p.scheme + "://" + p.address
}

// GoString is String, for %#v.
func (p *Proxy) GoString() string { return p.String() }

// dial opens a connection to address through p. Its errors name the proxy.
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

// socks opens a connection by SOCKS5. The library's connection hides the TCP connection, so that is
// kept when it is dialed.
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

// Dial implements socks.Dialer.
func (k *kept) Dial(network, address string) (net.Conn, error) {
	return k.DialContext(context.Background(), network, address)
}

// DialContext implements socks.ContextDialer.
func (k *kept) DialContext(ctx context.Context, network, address string) (_ net.Conn, err error) {
	k.conn, err = new(net.Dialer).DialContext(ctx, network, address)
	return k.conn, err
}

// maxHead is the size limit of the proxy's answer head in bytes.
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
	req.Header.Set("User-Agent", "") // send no User-Agent
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
