package identity_test

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

	"sidenote/proxy/identity"
	"sidenote/proxy/identity/identitytest"
)

func verify(v *identity.Verifier, token string, now time.Time) (*identity.Verified, identity.Denial) {
	return v.Verify(token, sha256.Sum256([]byte(token)), now)
}

func rule(tenant string, claims map[string][]string) identity.Rule {
	return identity.Rule{Tenant: tenant, Issuer: identitytest.Name, Claims: claims}
}

func segment(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// P14, T09: a token counts if everything about it is right, and otherwise not at all.
func TestVerify(t *testing.T) {
	s, other, now := identitytest.New(t), identitytest.New(t), time.Now()
	v := identity.NewVerifier([]identity.Issuer{s.Trusted()}, []identity.Rule{
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
		c := identitytest.Claims(now, map[string]any{"groups": []string{"staff", "hr"}})
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
		why         identity.Denial
	}{
		{"RS256", good, "hr", ""},
		{"ES256", s.Sign(jose.ES256, s.EC, identitytest.EC, claims(nil)), "hr", ""},
		{"one value", with(map[string]any{"groups": "people"}), "hr", ""},
		{"nested", with(map[string]any{"groups": "ops", "realm": map[string]any{"admin": true}}), "ops", ""},
		{"a number as it is written", s.SignText(jose.RS256, s.RSA, identitytest.RSA, fmt.Sprintf(`{"iss":%q,"aud":["a",%q],"exp":%d,"level":12345678901234567890}`, identitytest.Issuer, identitytest.Audience, now.Unix()+1)), "level", ""},
		{"expired within the skew", with(map[string]any{"exp": now.Add(-59 * time.Second).Unix()}), "hr", ""},
		{"valid within the skew", with(map[string]any{"nbf": now.Add(59 * time.Second).Unix()}), "hr", ""},

		{"expired", with(map[string]any{"exp": now.Add(-62 * time.Second).Unix()}), "", identity.Expired},
		{"not valid yet", with(map[string]any{"nbf": now.Add(62 * time.Second).Unix()}), "", identity.NotYetValid},
		{"of the future", with(map[string]any{"iat": now.Add(62 * time.Second).Unix()}), "", identity.NotYetValid},
		{"without exp", with(map[string]any{"exp": nil}), "", identity.NoExpiry},
		{"exp that is no time", with(map[string]any{"exp": "tomorrow"}), "", identity.BadClaims},
		{"exp without end", with(map[string]any{"exp": 1e300}), "", identity.BadClaims},
		{"without aud", with(map[string]any{"aud": nil}), "", identity.WrongAudience},
		{"another aud", with(map[string]any{"aud": []string{"sidenote2", "x"}}), "", identity.WrongAudience},
		{"another iss", with(map[string]any{"iss": "https://id.example.com/"}), "", identity.Foreign},
		{"without iss", with(map[string]any{"iss": nil}), "", identity.Foreign},
		{"alg none", segment(`{"alg":"none","kid":"`+identitytest.RSA+`"}`) + "." + body + ".", "", identity.Malformed},
		{"alg none, signed", segment(`{"alg":"none","kid":"`+identitytest.RSA+`"}`) + "." + body + "." + signature, "", identity.Malformed},
		{"key confusion", s.Sign(jose.HS256, public, identitytest.RSA, claims(nil)), "", identity.Malformed},
		{"alg that is not allowed", s.Sign(jose.RS512, s.RSA, identitytest.RSA, claims(nil)), "", identity.Malformed},
		{"key of another type", s.Sign(jose.ES256, s.EC, identitytest.RSA, claims(nil)), "", identity.BadSignature},
		{"another curve", s.Sign(jose.ES384, p384, identitytest.EC, claims(nil)), "", identity.Malformed},
		{"another's key", other.Token(claims(nil)), "", identity.BadSignature},
		{"no kid", s.Sign(jose.RS256, s.RSA, "", claims(nil)), "", identity.UnknownKey},
		{"unknown kid", s.Sign(jose.RS256, s.RSA, "rsa-2", claims(nil)), "", identity.UnknownKey},
		{"another's key in the head", segment(`{"alg":"RS256","kid":"`+identitytest.RSA+`","jwk":`+jwk(t, other)+`}`) + "." + body + "." + signature, "", identity.BadSignature},
		{"critical word", segment(`{"alg":"RS256","kid":"`+identitytest.RSA+`","crit":["x"],"x":1}`) + "." + body + "." + signature, "", identity.BadSignature},
		{"changed", head + "." + segment(`{"iss":"`+identitytest.Issuer+`","groups":"ops"}`) + "." + signature, "", identity.BadSignature},
		{"no signature", head + "." + body + ".", "", identity.BadSignature},
		{"huge", with(map[string]any{"x": strings.Repeat("x", identity.MaxToken)}), "", identity.TooLarge},
		{"two members of a name", s.SignText(jose.RS256, s.RSA, identitytest.RSA, `{"iss":"a","iss":"`+identitytest.Issuer+`"}`), "", identity.Foreign},
		{"two claims of a name", with(map[string]any{"realm": map[string]any{"admin": true}, "realm.admin": "true"}), "", identity.BadClaims},
		{"too deep", s.SignText(jose.RS256, s.RSA, identitytest.RSA, fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":%d,"a":%s1%s}`, identitytest.Issuer, identitytest.Audience, now.Unix(), strings.Repeat(`{"a":`, 9), strings.Repeat("}", 9))), "", identity.BadClaims},
		{"no tenant", with(map[string]any{"groups": "sales"}), "", identity.NoTenant},
		{"a list with an object", with(map[string]any{"groups": []any{"hr", map[string]any{}}}), "", identity.NoTenant},
		{"one of two claims", with(map[string]any{"groups": "ops"}), "", identity.NoTenant},
		{"two tenants", with(map[string]any{"groups": []string{"hr", "ops"}, "realm": map[string]any{"admin": true}}), "", identity.SeveralTenants},
		{"no JSON", s.SignText(jose.RS256, s.RSA, identitytest.RSA, "{"), "", identity.Foreign},
		{"no token", "sk-sidenote-x", "", identity.Foreign},
		{"nothing", "", "", identity.Foreign},
		{"dots", "eyJ..", "", identity.Foreign},
		{"encrypted", "eyJhbGciOiJSU0EtT0FFUCJ9.a.b.c.d", "", identity.Foreign},
	} {
		for _, again := range []string{"", ", again"} { // from the cache, where it is good
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
		"iss": {identitytest.Issuer}, "aud": {identitytest.Audience}, "sub": {"somebody"}, "groups": {"staff", "hr"}, "n": {"0.1"},
		"iat": {fmt.Sprint(now.Unix())}, "exp": {fmt.Sprint(now.Add(10 * time.Minute).Unix())}, "realm.admin": {"false"}, "realm.deep.er": {"a", "1"},
	}
	if diff := cmp.Diff(want, got.Claims); diff != "" {
		t.Error(diff)
	}
}

func jwk(t *testing.T, s *identitytest.Signer) string {
	t.Helper()
	text, err := (jose.JSONWebKey{Key: s.RSA.Public(), KeyID: "x"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A token in the cache counts until it expires.
func TestVerifiedExpires(t *testing.T) {
	s, now := identitytest.New(t), time.Now()
	v := identity.NewVerifier([]identity.Issuer{s.Trusted()}, []identity.Rule{rule("all", map[string][]string{"iss": {identitytest.Issuer}})})
	token := s.Token(identitytest.Claims(now, nil))
	for at, want := range map[time.Duration]identity.Denial{0: "", 10*time.Minute + 58*time.Second: "", 11*time.Minute + 2*time.Second: identity.Expired} {
		verify(v, token, now)
		if _, why := verify(v, token, now.Add(at)); why != want {
			t.Errorf("after %s: %q, want %q", at, why, want)
		}
	}
}

// Two issuers of one name, for two audiences: a token for both must name one tenant.
func TestIssuersOfOneName(t *testing.T) {
	s, now := identitytest.New(t), time.Now()
	a, b := s.Trusted(), s.Trusted()
	b.Name, b.Audience = "other", "sidenote-other"
	v := identity.NewVerifier([]identity.Issuer{a, b}, []identity.Rule{
		rule("x", map[string][]string{"sub": {"x"}}), rule("y", map[string][]string{"sub": {"y"}}),
		{Tenant: "x", Issuer: "other", Claims: map[string][]string{"sub": {"x"}}}, {Tenant: "z", Issuer: "other", Claims: map[string][]string{"sub": {"y", "z"}}},
	})
	both := []string{a.Audience, b.Audience}
	for _, c := range []struct {
		sub    string
		aud    any
		tenant string
		why    identity.Denial
	}{
		{"x", both, "x", ""}, {"y", both, "", identity.SeveralTenants}, {"y", a.Audience, "y", ""}, {"y", b.Audience, "z", ""},
		{"z", both, "z", ""}, {"z", a.Audience, "", identity.NoTenant}, {"q", both, "", identity.NoTenant}, {"x", "nobody", "", identity.WrongAudience},
	} {
		got, why := verify(v, s.Token(identitytest.Claims(now, map[string]any{"sub": c.sub, "aud": c.aud})), now)
		if why != c.why || got != nil && got.Tenant != c.tenant || (got == nil) != (c.tenant == "") {
			t.Errorf("%s for %v: %+v, %q", c.sub, c.aud, got, why)
		}
	}
}

// T09: a token counts in one spelling only. Others, which have the same bytes, are refused and
// take no room.
func TestT09OneSpelling(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	s, now := identitytest.New(t), time.Now()
	v := identity.NewVerifier([]identity.Issuer{s.Trusted()}, []identity.Rule{rule("acme", map[string][]string{"groups": {"staff"}})})
	spellings := make([]int, 3) // of each part, but for the one that counts
	for n := range 3 {          // so that the length of the payload leaves bits over in two of three tokens
		token := s.Token(identitytest.Claims(now, map[string]any{"groups": []string{"staff"}, "pad": strings.Repeat("x", n)}))
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
				if got, why := verify(v, strings.Join(all, "."), now); got != nil || why != identity.Malformed {
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
	s, now := identitytest.New(b), time.Now()
	rules := make([]identity.Rule, 10_000)
	for i := range rules {
		rules[i] = rule(fmt.Sprint("t", i), map[string][]string{"aud": {identitytest.Audience}, "groups": {fmt.Sprint("g", i)}})
	}
	claims := identitytest.Claims(now, map[string]any{"groups": []string{"staff", "g77"}})
	for name, token := range map[string]string{"RS256": s.Token(claims), "ES256": s.Sign(jose.ES256, s.EC, identitytest.EC, claims)} {
		v := identity.NewVerifier([]identity.Issuer{s.Trusted()}, rules)
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
		run("first", func() { n++; binary.LittleEndian.PutUint64(digest[:], n) }) // the cache knows a token by its digest
	}
}
