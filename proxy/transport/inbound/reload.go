package inbound

import (
	"crypto/tls"
	"fmt"
	"time"

	"sidenote/proxy/transport/certs"
)

// Files are the PEM files of a port.
type Files struct {
	Cert, Key string
	ClientCA  string // "": clients need no certificate
}

// TLS returns the settings for a port: TLS 1.2 or later, HTTP/1.1 only. At a handshake the
// files are read again, at most once a second. What cannot be used then is told once, and
// the last good settings stay; tell is called with nil when new ones are used. The error of
// TLS itself says what cannot be used now.
func TLS(files Files, tell func(err error)) (*tls.Config, error) {
	return newTLS(files, tell, time.Now)
}

func newTLS(files Files, tell func(error), now func() time.Time) (*tls.Config, error) {
	all := []certs.File{certs.OnDisk(files.Cert), certs.OnDisk(files.Key), certs.OnDisk(files.ClientCA)}
	r, err := certs.NewReloader(all, func(pems [][]byte) (*tls.Config, error) { return settings(files, pems) }, now)
	if err != nil {
		return nil, err
	}
	r.Tell = tell
	outer := r.Current().Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.Current(), nil }
	return outer, nil
}

// settings makes settings of what the files hold.
func settings(f Files, pems [][]byte) (*tls.Config, error) {
	pair, err := certs.Pair(pems[0], pems[1])
	if err != nil {
		return nil, fmt.Errorf("%q with key %q: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if f.ClientCA == "" {
		return c, nil
	}
	if c.ClientCAs, err = certs.Authorities(pems[2]); err != nil {
		return nil, fmt.Errorf("%q %w", f.ClientCA, err)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true // a resumed session would not be checked against a new client_ca
	return c, nil
}
