package tenant

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// MaxToken is how long a token may be, in bytes.
	MaxToken = 16 << 10
	// ClockSkew is how far the clock of an issuer may be off.
	ClockSkew = time.Minute
)

// An Issuer signs tokens for Sidenote.
type Issuer struct {
	Name       string   // in the configuration
	Issuer     string   // what iss must be
	Audience   string   // what aud must be or hold
	Algorithms []string // that signatures may have, of Algorithms
	Keys       *KeySet
}

// TokenAlgorithms lists the signatures that can be allowed. All of them take public keys, so
// nobody who can verify a token can make one.
func TokenAlgorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// A TokenDenial says why a token names no tenant. It is for the log: callers are not told.
type TokenDenial string

// The denials.
const (
	TokenForeign        TokenDenial = "foreign" // no token, or one of an issuer that is not configured
	TokenTooLarge       TokenDenial = "token-too-large"
	TokenMalformed      TokenDenial = "token-malformed" // or with a signature of another algorithm
	TokenNoKeys         TokenDenial = "no-keys-of-issuer"
	TokenUnknownKey     TokenDenial = "unknown-kid"
	TokenBadSignature   TokenDenial = "bad-signature"
	TokenWrongAudience  TokenDenial = "wrong-audience"
	TokenExpired        TokenDenial = "token-expired"
	TokenNotYetValid    TokenDenial = "token-not-yet-valid"
	TokenNoExpiry       TokenDenial = "no-expiry"
	TokenBadClaims      TokenDenial = "ambiguous-claims"
	TokenNoTenant       TokenDenial = "no-tenant-matches"
	TokenSeveralTenants TokenDenial = "several-tenants-match"
)

// A VerifiedToken is a token that was verified and names one tenant.
type VerifiedToken struct {
	Tenant string
	// Claims has the values of each claim; see Rule. Nobody changes it.
	Claims map[string][]string

	until time.Time // its exp and the clock skew
	by    *issuer
	keys  *keys // that verified it
	size  int   // of the token
}

// A Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	issuers []*issuer
	cache   tokenCache
}

type issuer struct {
	Issuer
	algorithms []jose.SignatureAlgorithm
	rules      *index
}

// NewVerifier returns a Verifier of the tokens of some issuers. Each has its Keys.
func NewVerifier(issuers []Issuer, rules []ClaimRule) *Verifier {
	v, byName := new(Verifier), indexes(rules)
	for _, i := range issuers {
		x := &issuer{Issuer: i, rules: byName[i.Name]}
		if x.rules == nil {
			x.rules = newIndex(nil)
		}
		for _, alg := range i.Algorithms {
			x.algorithms = append(x.algorithms, jose.SignatureAlgorithm(alg))
		}
		v.issuers = append(v.issuers, x)
	}
	return v
}

// Verify returns what a token names, or why it names nothing. digest is its SHA-256.
func (v *Verifier) Verify(token string, digest [sha256.Size]byte, now time.Time) (*VerifiedToken, TokenDenial) {
	if t := v.cache.get(digest); t != nil && t.by.Keys.current.Load() == t.keys {
		if now.After(t.until) {
			return nil, TokenExpired
		}
		return t, ""
	}
	if !strings.HasPrefix(token, "eyJ") || strings.Count(token, ".") != 2 { // base64 of `{"`
		return nil, TokenForeign
	}
	if len(token) > MaxToken {
		return nil, TokenTooLarge
	}
	t, why := v.verify(token, now)
	if t != nil && !canonical(token) {
		return nil, TokenMalformed
	}
	if t != nil {
		v.cache.put(digest, t)
	}
	return t, why
}

// canonical tells whether a token is spelled in the one way that base64url has for its bytes.
// The last character of a part may have bits that mean nothing, and decoders pass over line
// breaks: so whoever has a token could spell it in many ways, each with room of its own in the
// cache.
func canonical(token string) bool {
	for part := range strings.SplitSeq(token, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
	}
	return true
}

// verify tries the issuers whose name the token has. Of two that accept it, as they differ
// in audience, both may name a tenant; it must be the same one.
func (v *Verifier) verify(token string, now time.Time) (found *VerifiedToken, why TokenDenial) {
	name, ok := claimedIssuer(token)
	if !ok {
		return nil, TokenForeign
	}
	why = TokenForeign
	for _, x := range v.issuers {
		if x.Issuer.Issuer != name {
			continue
		}
		t, denied := x.verify(token, now)
		switch {
		case t != nil && found != nil && t.Tenant != found.Tenant, denied == TokenSeveralTenants:
			return nil, TokenSeveralTenants
		case t != nil:
			found = t
		case why == TokenForeign || why == TokenWrongAudience: // what another one says is more to the point
			why = denied
		}
	}
	if found != nil {
		return found, ""
	}
	return nil, why
}

// claimedIssuer returns the iss of a token that nobody has verified.
func claimedIssuer(token string) (name string, ok bool) {
	_, rest, _ := strings.Cut(token, ".")
	text, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(text)
	var claims struct {
		Issuer string `json:"iss"`
	}
	return claims.Issuer, err == nil && json.Unmarshal(payload, &claims) == nil
}

// verify verifies a token that says it is x's.
func (x *issuer) verify(token string, now time.Time) (*VerifiedToken, TokenDenial) {
	signed, err := jose.ParseSignedCompact(token, x.algorithms)
	if err != nil {
		return nil, TokenMalformed
	}
	set := x.Keys.current.Load()
	if set == nil {
		return nil, TokenNoKeys
	}
	head := signed.Signatures[0].Header
	same := set.byID[head.KeyID] // no key has the kid ""
	if len(same) == 0 {
		if head.KeyID != "" {
			x.Keys.want()
		}
		return nil, TokenUnknownKey
	}
	payload, ok := verifySignature(signed, same, jose.SignatureAlgorithm(head.Algorithm))
	if !ok {
		return nil, TokenBadSignature
	}
	until, why := x.checkClaims(payload, now)
	if why != "" {
		return nil, why
	}
	claims, err := flatten(payload)
	if err != nil {
		return nil, TokenBadClaims
	}
	tenant, several := x.rules.tenant(claims)
	switch {
	case several:
		return nil, TokenSeveralTenants
	case tenant == "":
		return nil, TokenNoTenant
	}
	return &VerifiedToken{Tenant: tenant, Claims: claims, until: until, by: x, keys: set, size: len(token)}, ""
}

func verifySignature(signed *jose.JSONWebSignature, same []publicKey, alg jose.SignatureAlgorithm) (payload []byte, ok bool) {
	for _, k := range same {
		if !k.fits(alg) {
			continue
		}
		if payload, err := signed.Verify(k.key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// checkClaims checks the claims that every token needs, and returns until when it counts.
func (x *issuer) checkClaims(payload []byte, now time.Time) (until time.Time, why TokenDenial) {
	var c jwt.Claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return until, TokenBadClaims
	}
	if c.Expiry == nil {
		return until, TokenNoExpiry
	}
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: x.Issuer.Issuer, AnyAudience: jwt.Audience{x.Audience}, Time: now}, ClockSkew)
	switch {
	case err == nil:
		return c.Expiry.Time().Add(ClockSkew), ""
	case errors.Is(err, jwt.ErrExpired):
		return until, TokenExpired
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return until, TokenNotYetValid
	}
	return until, TokenWrongAudience
}
