package tenant_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"sidenote/proxy/tenant"
	"sidenote/proxy/tenant/tenanttest"
)

func verify(v *tenant.Verifier, token string, now time.Time) (*tenant.VerifiedToken, tenant.TokenDenial) {
	return v.Verify(token, sha256.Sum256([]byte(token)), now)
}

func rule(owner string, claims map[string][]string) tenant.ClaimRule {
	return tenant.ClaimRule{Tenant: owner, Issuer: tenanttest.Name, Claims: claims}
}

func segment(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// P14, T09: a token is accepted only if everything about it is valid.
func TestVerify(t *testing.T) {
	s, other, now := tenanttest.NewSigner(t), tenanttest.NewSigner(t), time.Now()
	v := tenant.NewVerifier([]tenant.Issuer{s.Trusted()}, []tenant.ClaimRule{
		rule("hr", map[string][]string{"groups": {"hr", "people"}}),
		rule("ops", map[string][]string{"groups": {"ops"}, "realm.admin": {"true"}}),
		rule("level", map[string][]string{"level": {"12345678901234567890"}}),
	})
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(s.RSA.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	claims := func(change map[string]any) map[string]any {
		c := tenanttest.Claims(now, map[string]any{"groups": []string{"staff", "hr"}})
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
		return c
	}
	with := func(change map[string]any) string { return s.Token(claims(change)) }
	good := with(nil)
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	for _, c := range []struct {
		name, token string
		tenant      string
		why         tenant.TokenDenial
	}{
		{"RS256", good, "hr", ""},
		{"ES256", s.Sign(jose.ES256, s.EC, tenanttest.EC, claims(nil)), "hr", ""},
		{"one value", with(map[string]any{"groups": "people"}), "hr", ""},
		{"nested", with(map[string]any{"groups": "ops", "realm": map[string]any{"admin": true}}), "ops", ""},
		{"a number as it is written", s.SignText(jose.RS256, s.RSA, tenanttest.RSA, fmt.Sprintf(`{"iss":%q,"aud":["a",%q],"exp":%d,"level":12345678901234567890}`, tenanttest.Issuer, tenanttest.Audience, now.Unix()+1)), "level", ""},
		{"expired within the skew", with(map[string]any{"exp": now.Add(-59 * time.Second).Unix()}), "hr", ""},
		{"valid within the skew", with(map[string]any{"nbf": now.Add(59 * time.Second).Unix()}), "hr", ""},

		{"expired", with(map[string]any{"exp": now.Add(-62 * time.Second).Unix()}), "", tenant.TokenExpired},
		{"not valid yet", with(map[string]any{"nbf": now.Add(62 * time.Second).Unix()}), "", tenant.TokenNotYetValid},
		{"of the future", with(map[string]any{"iat": now.Add(62 * time.Second).Unix()}), "", tenant.TokenNotYetValid},
		{"without exp", with(map[string]any{"exp": nil}), "", tenant.TokenNoExpiry},
		{"exp that is no time", with(map[string]any{"exp": "tomorrow"}), "", tenant.TokenBadClaims},
		{"exp without end", with(map[string]any{"exp": 1e300}), "", tenant.TokenBadClaims},
		{"without aud", with(map[string]any{"aud": nil}), "", tenant.TokenWrongAudience},
		{"another aud", with(map[string]any{"aud": []string{"sidenote2", "x"}}), "", tenant.TokenWrongAudience},
		{"another iss", with(map[string]any{"iss": "https://id.example.com/"}), "", tenant.TokenForeign},
		{"without iss", with(map[string]any{"iss": nil}), "", tenant.TokenForeign},
		{"alg none", segment(`{"alg":"none","kid":"`+tenanttest.RSA+`"}`) + "." + body + ".", "", tenant.TokenMalformed},
		{"alg none, signed", segment(`{"alg":"none","kid":"`+tenanttest.RSA+`"}`) + "." + body + "." + signature, "", tenant.TokenMalformed},
		{"key confusion", s.Sign(jose.HS256, public, tenanttest.RSA, claims(nil)), "", tenant.TokenMalformed},
		{"alg that is not allowed", s.Sign(jose.RS512, s.RSA, tenanttest.RSA, claims(nil)), "", tenant.TokenMalformed},
		{"key of another type", s.Sign(jose.ES256, s.EC, tenanttest.RSA, claims(nil)), "", tenant.TokenBadSignature},
		{"another curve", s.Sign(jose.ES384, p384, tenanttest.EC, claims(nil)), "", tenant.TokenMalformed},
		{"another's key", other.Token(claims(nil)), "", tenant.TokenBadSignature},
		{"no kid", s.Sign(jose.RS256, s.RSA, "", claims(nil)), "", tenant.TokenUnknownKey},
		{"unknown kid", s.Sign(jose.RS256, s.RSA, "rsa-2", claims(nil)), "", tenant.TokenUnknownKey},
		{"another's key in the head", segment(`{"alg":"RS256","kid":"`+tenanttest.RSA+`","jwk":`+jwk(t, other)+`}`) + "." + body + "." + signature, "", tenant.TokenBadSignature},
		{"critical word", segment(`{"alg":"RS256","kid":"`+tenanttest.RSA+`","crit":["x"],"x":1}`) + "." + body + "." + signature, "", tenant.TokenBadSignature},
		{"changed", head + "." + segment(`{"iss":"`+tenanttest.Issuer+`","groups":"ops"}`) + "." + signature, "", tenant.TokenBadSignature},
		{"no signature", head + "." + body + ".", "", tenant.TokenBadSignature},
		{"huge", with(map[string]any{"x": strings.Repeat("x", tenant.MaxToken)}), "", tenant.TokenTooLarge},
		{"two members of a name", s.SignText(jose.RS256, s.RSA, tenanttest.RSA, `{"iss":"a","iss":"`+tenanttest.Issuer+`"}`), "", tenant.TokenForeign},
		{"two claims of a name", with(map[string]any{"realm": map[string]any{"admin": true}, "realm.admin": "true"}), "", tenant.TokenBadClaims},
		{"too deep", s.SignText(jose.RS256, s.RSA, tenanttest.RSA, fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":%d,"a":%s1%s}`, tenanttest.Issuer, tenanttest.Audience, now.Unix(), strings.Repeat(`{"a":`, 9), strings.Repeat("}", 9))), "", tenant.TokenBadClaims},
		{"no tenant", with(map[string]any{"groups": "sales"}), "", tenant.TokenNoTenant},
		{"a list with an object", with(map[string]any{"groups": []any{"hr", map[string]any{}}}), "", tenant.TokenNoTenant},
		{"one of two claims", with(map[string]any{"groups": "ops"}), "", tenant.TokenNoTenant},
		{"two tenants", with(map[string]any{"groups": []string{"hr", "ops"}, "realm": map[string]any{"admin": true}}), "", tenant.TokenSeveralTenants},
		{"no JSON", s.SignText(jose.RS256, s.RSA, tenanttest.RSA, "{"), "", tenant.TokenForeign},
		{"no token", "sk-sidenote-x", "", tenant.TokenForeign},
		{"nothing", "", "", tenant.TokenForeign},
		{"dots", "eyJ..", "", tenant.TokenForeign},
		{"encrypted", "eyJhbGciOiJSU0EtT0FFUCJ9.a.b.c.d", "", tenant.TokenForeign},
	} {
		for _, again := range []string{"", ", again"} { // from the cache, if it is valid
			got, why := verify(v, c.token, now)
			tenant := ""
			if got != nil {
				tenant = got.Tenant
			}
			if tenant != c.tenant || why != c.why {
				t.Errorf("%s%s: tenant %q, %q; want %q, %q", c.name, again, tenant, why, c.tenant, c.why)
			}
		}
	}
	got, _ := verify(v, with(map[string]any{"n": 0.10, "none": nil, "empty": []string{}, "realm": map[string]any{"admin": false, "deep": map[string]any{"er": []any{"a", 1}}}}), now)
	want := map[string][]string{
		"iss": {tenanttest.Issuer}, "aud": {tenanttest.Audience}, "sub": {"somebody"}, "groups": {"staff", "hr"}, "n": {"0.1"},
		"iat": {fmt.Sprint(now.Unix())}, "exp": {fmt.Sprint(now.Add(10 * time.Minute).Unix())}, "realm.admin": {"false"}, "realm.deep.er": {"a", "1"},
	}
	if diff := cmp.Diff(want, got.Claims); diff != "" {
		t.Error(diff)
	}
}

func jwk(t *testing.T, s *tenanttest.Signer) string {
	t.Helper()
	text, err := (jose.JSONWebKey{Key: s.RSA.Public(), KeyID: "x"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A cached token is valid until it expires.
func TestVerifiedExpires(t *testing.T) {
	s, now := tenanttest.NewSigner(t), time.Now()
	v := tenant.NewVerifier([]tenant.Issuer{s.Trusted()}, []tenant.ClaimRule{rule("all", map[string][]string{"iss": {tenanttest.Issuer}})})
	token := s.Token(tenanttest.Claims(now, nil))
	for at, want := range map[time.Duration]tenant.TokenDenial{0: "", 10*time.Minute + 58*time.Second: "", 11*time.Minute + 2*time.Second: tenant.TokenExpired} {
		verify(v, token, now)
		if _, why := verify(v, token, now.Add(at)); why != want {
			t.Errorf("after %s: %q, want %q", at, why, want)
		}
	}
}

// Two issuers with one name and different audiences: a token for both must belong to one tenant.
func TestIssuersOfOneName(t *testing.T) {
	s, now := tenanttest.NewSigner(t), time.Now()
	a, b := s.Trusted(), s.Trusted()
	b.Name, b.Audience = "other", "sidenote-other"
	v := tenant.NewVerifier([]tenant.Issuer{a, b}, []tenant.ClaimRule{
		rule("x", map[string][]string{"sub": {"x"}}), rule("y", map[string][]string{"sub": {"y"}}),
		{Tenant: "x", Issuer: "other", Claims: map[string][]string{"sub": {"x"}}}, {Tenant: "z", Issuer: "other", Claims: map[string][]string{"sub": {"y", "z"}}},
	})
	both := []string{a.Audience, b.Audience}
	for _, c := range []struct {
		sub    string
		aud    any
		tenant string
		why    tenant.TokenDenial
	}{
		{"x", both, "x", ""}, {"y", both, "", tenant.TokenSeveralTenants}, {"y", a.Audience, "y", ""}, {"y", b.Audience, "z", ""},
		{"z", both, "z", ""}, {"z", a.Audience, "", tenant.TokenNoTenant}, {"q", both, "", tenant.TokenNoTenant}, {"x", "nobody", "", tenant.TokenWrongAudience},
	} {
		got, why := verify(v, s.Token(tenanttest.Claims(now, map[string]any{"sub": c.sub, "aud": c.aud})), now)
		if why != c.why || got != nil && got.Tenant != c.tenant || (got == nil) != (c.tenant == "") {
			t.Errorf("%s for %v: %+v, %q", c.sub, c.aud, got, why)
		}
	}
}

// T09: a token is accepted in one spelling only. Other spellings of the same bytes are refused and
// not cached.
func TestT09OneSpelling(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	s, now := tenanttest.NewSigner(t), time.Now()
	v := tenant.NewVerifier([]tenant.Issuer{s.Trusted()}, []tenant.ClaimRule{rule("acme", map[string][]string{"groups": {"staff"}})})
	spellings := make([]int, 3) // of each part, except the accepted one
	for n := range 3 {          // the payload's length leaves unused bits in two of three tokens
		token := s.Token(tenanttest.Claims(now, map[string]any{"groups": []string{"staff"}, "pad": strings.Repeat("x", n)}))
		if got, why := verify(v, token, now); got == nil {
			t.Fatalf("%s: %q", token, why)
		}
		parts := strings.Split(token, ".")
		for i, part := range parts {
			other := func(text string) {
				t.Helper()
				decoded, err := base64.RawURLEncoding.DecodeString(text)
				if same, _ := base64.RawURLEncoding.DecodeString(part); err != nil || !bytes.Equal(decoded, same) {
					return // another text
				}
				spellings[i]++
				all := slices.Clone(parts)
				all[i] = text
				if got, why := verify(v, strings.Join(all, "."), now); got != nil || why != tenant.TokenMalformed {
					t.Errorf("part %d as …%q: %+v, %q", i, text[len(text)-3:], got, why)
				}
			}
			other(part[:4] + "\n" + part[4:])
			for _, last := range alphabet {
				if text := part[:len(part)-1] + string(last); text != part {
					other(text)
				}
			}
		}
	}
	if spellings[1] < 10 || spellings[2] < 10 {
		t.Errorf("%v other spellings were tried of the parts of a token", spellings)
	}
}

// BenchmarkVerify looks tokens up among 10,000 tenants.
func BenchmarkVerify(b *testing.B) {
	s, now := tenanttest.NewSigner(b), time.Now()
	rules := make([]tenant.ClaimRule, 10_000)
	for i := range rules {
		rules[i] = rule(fmt.Sprint("t", i), map[string][]string{"aud": {tenanttest.Audience}, "groups": {fmt.Sprint("g", i)}})
	}
	claims := tenanttest.Claims(now, map[string]any{"groups": []string{"staff", "g77"}})
	for name, token := range map[string]string{"RS256": s.Token(claims), "ES256": s.Sign(jose.ES256, s.EC, tenanttest.EC, claims)} {
		v := tenant.NewVerifier([]tenant.Issuer{s.Trusted()}, rules)
		digest := sha256.Sum256([]byte(token))
		run := func(kind string, next func()) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					next()
					if t, _ := v.Verify(token, digest, now); t == nil {
						b.Fatal("refused")
					}
				}
			})
		}
		run("cached", func() { digest = sha256.Sum256([]byte(token)) })
		var n uint64
		run("first", func() { n++; binary.LittleEndian.PutUint64(digest[:], n) }) // the cache identifies a token by its digest
	}
}
