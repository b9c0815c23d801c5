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
	// MaxToken is the maximum length of a token in bytes.
	MaxToken = 16 << 10
	// ClockSkew is the tolerated clock difference to an issuer.
	ClockSkew = time.Minute
)

// An Issuer signs tokens for Sidenote.
type Issuer struct {
	Name       string   // in the configuration
	Issuer     string   // required iss
	Audience   string   // required aud, or one of its elements
	Algorithms []string // allowed for signatures, of TokenAlgorithms
	Keys       *KeySet
}

// TokenAlgorithms lists the supported signature algorithms. All use public keys, so nobody who can
// verify a token can make one.
func TokenAlgorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// A TokenDenial is the reason why a token is refused. It is logged, and not shown to callers.
type TokenDenial string

// Reasons to refuse a token.
const (
	TokenForeign        TokenDenial = "foreign" // not a token, or of an unknown issuer
	TokenTooLarge       TokenDenial = "token-too-large"
	TokenMalformed      TokenDenial = "token-malformed" // or signed with another algorithm
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

// A VerifiedToken is a verified token that belongs to one tenant.
type VerifiedToken struct {
	Tenant string
	// Claims has the values of each claim; see flatten. It must not be changed.
	Claims map[string][]string

	until time.Time // its exp plus the clock skew
	by    *issuer
	keys  *keys // that verified it
	size  int   // length of the token
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

// NewVerifier returns a Verifier for tokens of issuers, each of which has its Keys.
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

// Verify returns the content of a valid token, or why it is refused. digest is its SHA-256.
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

// canonical reports whether a token is in the one strict base64url spelling of its bytes. Decoders
// ignore line breaks and the unused bits of a part's last character, so one token could have many
// spellings, each with its own place in the cache.
func canonical(token string) bool {
	for part := range strings.SplitSeq(token, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
	}
	return true
}

// verify tries all issuers with the iss of the token; they may differ in audience. If several
// accept it, they must agree on the tenant.
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
		case why == TokenForeign || why == TokenWrongAudience: // another issuer's reason is more specific
			why = denied
		}
	}
	if found != nil {
		return found, ""
	}
	return nil, why
}

// claimedIssuer returns the unverified iss of a token.
func claimedIssuer(token string) (name string, ok bool) {
	_, rest, _ := strings.Cut(token, ".")
	text, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(text)
	var claims struct {
		Issuer string `json:"iss"`
	}
	return claims.Issuer, err == nil && json.Unmarshal(payload, &claims) == nil
}

// verify verifies a token whose iss is that of x.
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

// checkClaims checks the mandatory claims, and returns until when the token is valid.
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
