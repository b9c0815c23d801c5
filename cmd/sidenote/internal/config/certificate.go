package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"sidenote/proxy/transport"
)

// A Reader reads the files that keys of the configuration name.
type Reader struct {
	Read    func(key, name string) []byte // nil: there is nothing to read, or the problem was reported
	Again   func(key, name string) ([]byte, error)
	Problem func(key, format string, args ...any)
}

// Fill reads the certificates below a key of the configuration into options, which will read the
// files again when they change.
func (r Reader) Fill(options *transport.OutboundOptions, at, ca, cert, key string) {
	if ca != "" {
		options.RootCAs = r.Authorities(at+".ca", ca)
	}
	options.Certificates = r.Pair(at, cert, key)
	if options.RootCAs == nil && options.Certificates == nil {
		return
	}
	file := func(key, name string) transport.CertificateFile {
		if name == "" {
			return transport.CertificateFile{}
		}
		return transport.CertificateFile{Path: name, Read: func() ([]byte, error) { return r.Again(key, name) }}
	}
	reload, err := transport.NewReloader([]transport.CertificateFile{file(at+".ca", ca), file(at+".cert", cert), file(at+".key", key)}, func(pems [][]byte) (t transport.Trust, err error) {
		if ca != "" {
			if t.RootCAs, err = transport.CertificateAuthorities(pems[0]); err != nil {
				return t, fmt.Errorf("%q %w", ca, err)
			}
		}
		if cert != "" {
			pair, err := transport.CertificatePair(pems[1], pems[2])
			if err != nil {
				return t, fmt.Errorf("%q with key %q: %w", cert, key, err)
			}
			t.Certificates = []tls.Certificate{pair}
		}
		return t, nil
	}, time.Now)
	if err == nil { // errors were reported above, when each file was read
		options.Reload = reload
	}
}

// Authorities reads the certificate bundle named by a key; nil if it cannot be used.
func (r Reader) Authorities(key, name string) *x509.CertPool {
	pem := r.Read(key, name)
	if pem == nil {
		return nil
	}
	pool, err := transport.CertificateAuthorities(pem)
	if err != nil {
		r.Problem(key, "%q %v", name, err)
	}
	return pool
}

// Pair reads the certificate and the private key named below a key of the configuration; nil if
// there are none.
func (r Reader) Pair(at, cert, key string) []tls.Certificate {
	switch {
	case cert == "" && key == "":
		return nil
	case key == "":
		r.Problem(at+".key", "is missing; it is the file of the key of cert, %q", cert)
		return nil
	case cert == "":
		r.Problem(at+".cert", "is missing; it is the file of the certificate of key, %q", key)
		return nil
	}
	certPEM, keyPEM := r.Read(at+".cert", cert), r.Read(at+".key", key)
	if certPEM == nil || keyPEM == nil {
		return nil
	}
	pair, err := transport.CertificatePair(certPEM, keyPEM)
	if err != nil {
		r.Problem(at+".cert", "%q with key %q: %v", cert, key, err)
		return nil
	}
	return []tls.Certificate{pair}
}
