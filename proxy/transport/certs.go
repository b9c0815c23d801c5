package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CertificateAuthorities parses a PEM bundle into a pool. Anything else in the bundle is ignored,
// but a bundle without any certificate is an error.
func CertificateAuthorities(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("contains no PEM certificate")
	}
	return pool, nil
}

// CertificatePair parses a certificate, which may be followed by intermediate ones, and its key.
// Errors never contain any part of the key.
func CertificatePair(cert, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	return pair, nil
}

// InvalidCertificate returns why a certificate is not valid at that time, "" if it is.
func InvalidCertificate(c tls.Certificate, now time.Time) string {
	switch {
	case c.Leaf == nil:
		return ""
	case now.After(c.Leaf.NotAfter):
		return fmt.Sprintf("is a certificate that expired on %s", c.Leaf.NotAfter.UTC().Format(time.DateOnly))
	case now.Before(c.Leaf.NotBefore):
		return fmt.Sprintf("is a certificate that is valid only from %s on", c.Leaf.NotBefore.UTC().Format(time.DateOnly))
	}
	return ""
}
