package client

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
)

// An address is the address of an admin port.
type address struct {
	network, target string // as for net.Dial
	secure          bool   // TLS
}

// parse parses HOST:PORT or unix:/PATH, with an optional https:// prefix.
func parse(text string) (a address) {
	a.network = "tcp"
	a.target, a.secure = strings.CutPrefix(text, "https://")
	if path, socket := strings.CutPrefix(a.target, "unix:"); socket {
		a.network, a.target = "unix", path
	}
	return a
}

// host returns the host name for requests.
func (a address) host() string {
	if a.network == "unix" {
		return "localhost"
	}
	return a.target
}

// dial connects; settings are used for TLS.
func (a address) dial(ctx context.Context, settings *tls.Config) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, a.network, a.target)
	if err != nil || !a.secure {
		return conn, err
	}
	secure := tls.Client(conn, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
