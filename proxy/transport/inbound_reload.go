package transport

import (
	"crypto/tls"
	"fmt"
	"time"
)

// CertificateFiles are the paths of a port's PEM files.
type CertificateFiles struct {
	Cert, Key string
	ClientCA  string // "": no client certificate is required
}

// ListenerTLS returns the TLS settings of a port: TLS 1.2 or later, HTTP/1.1 only. At a handshake
// the files are read again, at most once a second. If they cannot be used, the last good settings
// stay and tell is called once with the error; it is called with nil when new settings are used.
// ListenerTLS itself fails if the files cannot be used now.
func ListenerTLS(files CertificateFiles, tell func(err error)) (*tls.Config, error) {
	return newTLS(files, tell, time.Now)
}

func newTLS(files CertificateFiles, tell func(error), now func() time.Time) (*tls.Config, error) {
	all := []CertificateFile{CertificatesOnDisk(files.Cert), CertificatesOnDisk(files.Key), CertificatesOnDisk(files.ClientCA)}
	r, err := NewReloader(all, func(pems [][]byte) (*tls.Config, error) { return settings(files, pems) }, now)
	if err != nil {
		return nil, err
	}
	r.OnReload = tell
	outer := r.Current().Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.Current(), nil }
	return outer, nil
}

// settings makes TLS settings from the contents of the files.
func settings(f CertificateFiles, pems [][]byte) (*tls.Config, error) {
	pair, err := CertificatePair(pems[0], pems[1])
	if err != nil {
		return nil, fmt.Errorf("%q with key %q: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if f.ClientCA == "" {
		return c, nil
	}
	if c.ClientCAs, err = CertificateAuthorities(pems[2]); err != nil {
		return nil, fmt.Errorf("%q %w", f.ClientCA, err)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true // resumed sessions would not be checked against a new client_ca
	return c, nil
}
