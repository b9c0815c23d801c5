package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"time"

	"sidenote/proxy/report"
	"sidenote/proxy/transport"
)

// Expiries lists when keys of tenants and tokens of the admin port expire, and the client certificates
// of upstreams and engines.
func (c *Config) Expiries() (all []report.Expiry) {
	for name, t := range c.Tenants {
		for _, k := range t.Keys {
			if !k.Expires.IsZero() {
				all = append(all, report.Expiry{Kind: "key", Name: string(name) + "/" + cmp.Or(string(k.Name), hex.EncodeToString(k.SHA256[:4])), At: k.Expires.End()})
			}
		}
	}
	for _, t := range c.AdminTokens() {
		if !t.Expires.IsZero() {
			all = append(all, report.Expiry{Kind: "token", Name: t.Name, At: t.Expires})
		}
	}
	add := func(key string, o *transport.OutboundOptions) {
		pairs := o.Certificates
		if o.Reload != nil {
			pairs = o.Reload.Current().Certificates
		}
		for _, pair := range pairs {
			if at := notAfter(pair); !at.IsZero() {
				all = append(all, report.Expiry{Kind: "certificate", Name: key, At: at})
			}
		}
	}
	for name, u := range c.upstreams() {
		add("upstreams."+string(name)+".cert", &u.Dial)
	}
	for name, k := range c.Knowledge {
		add("knowledge."+string(name)+".tls.cert", &k.reach)
	}
	return all
}

func notAfter(pair tls.Certificate) time.Time {
	if pair.Leaf == nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// PortCertificates returns for the certificate of each port, by its key in the configuration, a
// function that returns when it expires; zero if that is not known. The files are read again when
// they change.
func (c *Config) PortCertificates() map[string]func() time.Time {
	all := map[string]func() time.Time{}
	for _, l := range (delegation{c}).listeners() {
		if !l.files.On() {
			continue
		}
		files := []transport.CertificateFile{transport.CertificatesOnDisk(l.files.Cert)}
		if r, err := transport.NewReloader(files, expiryOf, time.Now); err == nil {
			all[l.tls+".cert"] = r.Current
		}
	}
	return all
}

// expiryOf returns when the first certificate of a PEM file expires.
func expiryOf(pems [][]byte) (time.Time, error) {
	for block, rest := pem.Decode(pems[0]); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, err
		}
		return leaf.NotAfter, nil
	}
	return time.Time{}, errors.New("contains no PEM certificate")
}
