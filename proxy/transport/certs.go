package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CertificateAuthorities returns the certificates of a bundle as a pool. What else stands in the bundle
// is passed over, but one without any certificate is an error.
func CertificateAuthorities(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return pool, nil
}

// CertificatePair returns a certificate, behind which may stand those between it and its authority,
// with its key. An error never holds anything of the key.
func CertificatePair(cert, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	return pair, nil
}

// InvalidCertificate says why a certificate cannot be used at a time, "" if it can.
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
