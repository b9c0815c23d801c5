// Package tenanttest makes issuers of tokens for tests.
package tenanttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sidenote/proxy/tenant"
)

// The names that the issuer of New has and the tokens that it signs.
const (
	Name     = "corp"
	Issuer   = "https://id.example.com"
	Audience = "sidenote"
	RSA      = "rsa-1" // kids
	EC       = "ec-1"
)

// A Signer signs tokens. Its keys are of its own.
type Signer struct {
	t   testing.TB
	RSA *rsa.PrivateKey
	EC  *ecdsa.PrivateKey
}

// NewSigner makes new keys.
func NewSigner(t testing.TB) *Signer {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{t, r, e}
}

// JWKS returns the public keys.
func (s *Signer) JWKS() []byte {
	s.t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: s.RSA.Public(), KeyID: RSA, Use: "sig", Algorithm: "RS256"}, {Key: s.EC.Public(), KeyID: EC},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// Trusted returns the issuer with its keys, for algorithms RS256 and ES256.
func (s *Signer) Trusted() tenant.Issuer {
	s.t.Helper()
	set := tenant.NewKeySet(tenant.KeySource{Every: time.Hour, Read: func(context.Context) ([]byte, error) { return s.JWKS(), nil }})
	if err := set.Read(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return tenant.Issuer{Name: Name, Issuer: Issuer, Audience: Audience, Algorithms: []string{"RS256", "ES256"}, Keys: set}
}

// Claims returns the claims that every token needs, valid for ten minutes from now, and
// others in place of them. One that is nil is left out.
func Claims(now time.Time, others map[string]any) map[string]any {
	c := map[string]any{"iss": Issuer, "aud": Audience, "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "sub": "somebody"}
	for name, value := range others {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// Token signs claims by RS256.
func (s *Signer) Token(claims map[string]any) string {
	s.t.Helper()
	return s.Sign(jose.RS256, s.RSA, RSA, claims)
}

// Sign signs claims in any way, "none" among them.
func (s *Signer) Sign(alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	s.t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.SignText(alg, key, kid, string(payload))
}

// SignText is Sign of a payload that need not be JSON.
func (s *Signer) SignText(alg jose.SignatureAlgorithm, key any, kid, payload string) string {
	s.t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}
