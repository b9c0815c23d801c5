package transporttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	PEM    []byte // its own certificate
	Pool   *x509.CertPool
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial atomic.Int64
}

// NewAuthority returns a new certificate authority.
func NewAuthority() *Authority {
	key := newKey()
	der := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(72 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, key, key)
	cert, err := x509.ParseCertificate(der)
	must(err)
	a := &Authority{PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Pool: x509.NewCertPool(), cert: cert, key: key}
	a.Pool.AddCert(cert)
	return a
}

// A Pair is a certificate with its key, in PEM form.
type Pair struct{ Cert, Key []byte }

// Issue returns a certificate for 127.0.0.1 and for names, for servers and clients. It is
// valid until end.
func (a *Authority) Issue(end time.Time, names ...string) Pair {
	key := newKey()
	der := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1 + a.serial.Add(1)), Subject: pkix.Name{CommonName: "test"},
		NotBefore: end.Add(-48 * time.Hour), NotAfter: end,
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key, a.key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// TLS returns the pair for crypto/tls.
func (p Pair) TLS() tls.Certificate {
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	must(err)
	return c
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

// sign creates a certificate; if parent is nil it is self-signed.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(err)
	return der
}

func must(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}
