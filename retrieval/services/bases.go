package services

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// A Base is another base URL of an API, with its own way to connect.
type Base struct {
	URL  *url.URL
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config
}

// skipFor is how long a base URL that could not be connected to is tried last, as for requests that
// are relayed.
const skipFor = 10 * time.Second

// A unreached is an error of a connection that was not made, so that nothing was sent.
type unreached struct{ err error }

func (e *unreached) Error() string { return e.err.Error() }
func (e *unreached) Unwrap() error { return e.err }

// A baseTransport sends requests to the first of several base URLs that a connection can be made to.
type baseTransport struct {
	from  string // beginning of the URL of each request; the others have their own in its place
	bases []*remoteBase
}

type remoteBase struct {
	prefix string // as baseTransport.from
	http   *http.Transport
	failed atomic.Int64 // when no connection could be made, in Unix nanoseconds; 0 if the last attempt succeeded
}

// RoundTrip implements http.RoundTripper.
func (t *baseTransport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	for i, b := range t.order(time.Now()) {
		one := req
		if i > 0 || b != t.bases[0] {
			if one, err = t.moved(req, b); err != nil {
				return nil, err
			}
		}
		resp, err = b.http.RoundTrip(one)
		var failed *unreached
		if !errors.As(err, &failed) {
			b.failed.Store(0)
			return resp, err
		}
		if req.Context().Err() != nil {
			return nil, err
		}
		b.failed.Store(time.Now().UnixNano())
	}
	return nil, err
}

// order returns the base URLs in the order in which they are tried.
func (t *baseTransport) order(now time.Time) []*remoteBase {
	first, last := make([]*remoteBase, 0, len(t.bases)), []*remoteBase(nil)
	for _, b := range t.bases {
		if now.UnixNano()-b.failed.Load() < int64(skipFor) {
			last = append(last, b)
		} else {
			first = append(first, b)
		}
	}
	return append(first, last...)
}

// moved returns a copy of a request with a new body for another base URL.
func (t *baseTransport) moved(req *http.Request, to *remoteBase) (*http.Request, error) {
	one := req.Clone(req.Context())
	if rest, ok := strings.CutPrefix(req.URL.String(), t.from); ok {
		u, err := url.Parse(to.prefix + rest)
		if err != nil {
			return nil, err
		}
		one.URL, one.Host = u, ""
	}
	if req.GetBody != nil {
		var err error
		if one.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return one, nil
}

// CloseIdleConnections closes the idle connections to all base URLs.
func (t *baseTransport) CloseIdleConnections() {
	for _, b := range t.bases {
		b.http.CloseIdleConnections()
	}
}

// originOf returns scheme and host of a URL.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// RemoteBases returns base URLs with the prefixes of their calls.
func RemoteBases(all []Base, prefix func(*url.URL) string) []RemoteBase {
	var list []RemoteBase
	for _, b := range all {
		list = append(list, RemoteBase{prefix(b.URL), b})
	}
	return list
}
