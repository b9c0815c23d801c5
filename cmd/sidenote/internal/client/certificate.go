package client

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
)

// A Certificate is what a command shows to a port of ours that asks for a certificate. It is
// not to be copied.
type Certificate struct {
	Cert, Key string // PEM files; "" for none
	// OwnCert and OwnKey are the port's own pair, which is shown where there is no other
	// and the port's authorities have issued it.
	OwnCert, OwnKey string

	asked atomic.Bool // a port wants one
}

// Settings are those of TLS with a port. The error says which files cannot be used.
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
		return &pair, nil // whatever the port's authorities are: it says no if it must
	}
	return s, nil
}

func (c *Certificate) given() bool { return c.Cert != "" || c.Key != "" }

// own returns the port's own pair if the port would take it from a client.
func (c *Certificate) own(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.asked.Store(true)
	if c.OwnCert != "" {
		if pair, err := tls.LoadX509KeyPair(c.OwnCert, c.OwnKey); err == nil && asked.SupportsCertificate(&pair) == nil {
			return &pair, nil
		}
	}
	return new(tls.Certificate), nil
}

// flags are those of commands that give a Certificate.
const flags = "--admin-cert and --admin-key"

// Explain adds to the error of a port that it has asked for a certificate, and which flags may
// help if none was given. What the port itself says may be lost, as it closes the connection.
// A nil Certificate adds nothing.
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

// OnlyTrust makes settings accept one certificate, the first of a PEM file, by whatever name
// and authority. It is that at key of the configuration.
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
