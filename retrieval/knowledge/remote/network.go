package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// A Network is how a source is reached. The zero value is the public internet.
type Network struct {
	// AllowPrivate allows addresses of private networks and of this machine. Link-local addresses,
	// at which clouds hand out credentials, are refused nevertheless.
	AllowPrivate bool
}

// A PrivateError means that a name leads to an address that is not of the public internet.
type PrivateError struct{ Address netip.Addr }

func (e *PrivateError) Error() string {
	if linkLocal(e.Address) {
		return fmt.Sprintf("%s is a link-local address", e.Address)
	}
	return fmt.Sprintf("%s is a private address; allow_private: true allows it", e.Address)
}

// dialer returns a dialer that refuses addresses after names are resolved, so that neither a name
// nor a redirect leads to one.
func (n Network) dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: 20 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return n.check(to.Addr())
		},
	}
}

// check returns a *PrivateError for an address that may not be connected to.
func (n Network) check(a netip.Addr) error {
	a = embedded(a.Unmap().WithZone(""))
	if linkLocal(a) || !n.AllowPrivate && !public(a) {
		return &PrivateError{a}
	}
	return nil
}

// embedded returns the IPv4 address that a translator makes of an IPv6 address, if it is one of those.
func embedded(a netip.Addr) netip.Addr {
	b := a.As16()
	switch {
	case a.Is4():
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a): // RFC 6052
		return netip.AddrFrom4([4]byte(b[12:]))
	case netip.MustParsePrefix("2002::/16").Contains(a): // RFC 3056
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// linkLocal reports whether an address is link-local, or that of a cloud's metadata service.
func linkLocal(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || a.IsMulticast() || a == netip.MustParseAddr("fd00:ec2::254")
}

// public reports whether an address is of the public internet, by the IANA special-purpose address
// registries.
func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/8", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "fec0::/10",
	} {
		if netip.MustParsePrefix(p).Contains(a) {
			return false
		}
	}
	return true
}

// client returns an HTTP client for servers that are not trusted. It follows at most 5 redirects,
// all on the host of the first request.
func (n Network) client(l Limits) *http.Client {
	return &http.Client{
		Transport: &boundedTransport{limits: l, next: &http.Transport{
			DialContext: n.dialer().DialContext, TLSHandshakeTimeout: l.Idle,
			MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute, MaxConnsPerHost: 8, ForceAttemptHTTP2: true,
		}},
		CheckRedirect: sameHost,
	}
}

// sameHost refuses redirects to other hosts, and to http from https.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > 5:
		return errors.New("more than 5 redirects")
	case next.URL.Scheme != "https" && next.URL.Scheme != first.Scheme:
		return fmt.Errorf("redirected from %s to %s", first.Scheme, next.URL.Scheme)
	case next.URL.Hostname() != first.Hostname() || next.URL.Scheme == first.Scheme && next.URL.Port() != first.Port():
		return &redirectError{next.URL.Host}
	}
	return nil
}

// A redirectError means that a server redirected to another host.
type redirectError struct{ host string }

func (e *redirectError) Error() string { return "redirected to another host, " + e.host }

// errIdle means that a server sent nothing for too long.
var errIdle = errors.New("the server sent nothing for too long")

// limitKey is the key of a context that has the most bytes of a response.
type limitKey struct{}

// withLimit returns a context for requests whose responses have at most n bytes.
func withLimit(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, limitKey{}, n)
}

// A boundedTransport ends responses that hang, and those of more bytes than a source may have.
type boundedTransport struct {
	limits Limits
	next   *http.Transport
}

func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(t.limits.Idle, func() { cancel(errIdle) })
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); cause == errIdle {
			err = errIdle
		}
		cancel(nil)
		return nil, err
	}
	timer.Stop()
	limit := t.limits.Bytes
	if most, ok := ctx.Value(limitKey{}).(int64); ok {
		limit = min(limit, most)
	}
	response.Body = &boundedBody{body: response.Body, left: limit, limit: limit, idle: t.limits.Idle, timer: timer, ctx: ctx, cancel: cancel}
	return response, nil
}

// CloseIdleConnections closes the connections that are not in use.
func (t *boundedTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

type boundedBody struct {
	body   io.ReadCloser
	left   int64
	limit  int64
	idle   time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &tooLargeError{"the response", b.limit}
	}
	b.timer.Reset(b.idle)
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.timer.Stop() // who reads may take its time
	b.left -= int64(n)
	if err != nil && err != io.EOF && context.Cause(b.ctx) == errIdle {
		err = errIdle
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.once.Do(func() { b.timer.Stop(); b.cancel(nil) })
	return b.body.Close()
}
