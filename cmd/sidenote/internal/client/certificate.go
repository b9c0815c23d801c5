package client

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
)

// A Certificate is the client certificate that a command presents to a Sidenote port. It must not
// be copied.
type Certificate struct {
	Cert, Key string // PEM files; "" for none
	// OwnCert and OwnKey are the port's own pair. It is presented if there is no other and the
	// port's authorities issued it.
	OwnCert, OwnKey string

	asked atomic.Bool // a port has requested one
}

// Settings returns the TLS settings for a port. The error names files that cannot be used.
func (c *Certificate) Settings() (*tls.Config, error) {
	s := &tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: c.own}
	if !c.given() {
		return s, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %q with the key %q: %w", c.Cert, c.Key, err)
	}
	s.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.asked.Store(true)
		return &pair, nil // whatever authorities the port names: it may refuse
	}
	return s, nil
}

func (c *Certificate) given() bool { return c.Cert != "" || c.Key != "" }

// own returns the port's own pair if the port accepts that from a client.
func (c *Certificate) own(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.asked.Store(true)
	if c.OwnCert != "" {
		if pair, err := tls.LoadX509KeyPair(c.OwnCert, c.OwnKey); err == nil && asked.SupportsCertificate(&pair) == nil {
			return &pair, nil
		}
	}
	return new(tls.Certificate), nil
}

// flags are the flags with which commands set a Certificate.
const flags = "--admin-cert and --admin-key"

// Explain adds to an error that the port requested a certificate and, if none was given, the flags
// that may help. The port's own message may be lost, as it closes the connection. A nil
// Certificate adds nothing.
func (c *Certificate) Explain(err error, flags string) error {
	switch {
	case c == nil || !c.asked.Load():
	case c.given():
		return fmt.Errorf("%w (it asks for a client's certificate, and was shown %s)", err, c.Cert)
	default:
		return fmt.Errorf("%w (it asks for a client's certificate: give %s)", err, flags)
	}
	return err
}

// OnlyTrust makes settings accept exactly one certificate, the first in pemText, whatever its name
// and issuer. key is its configuration key, for errors.
func OnlyTrust(s *tls.Config, pemText []byte, key string) {
	block, _ := pem.Decode(pemText)
	s.InsecureSkipVerify = true //nolint:gosec // VerifyConnection does it
	s.VerifyConnection = func(state tls.ConnectionState) error {
		if block == nil || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
			return errors.New("answers with another certificate than that of " + key)
		}
		return nil
	}
}
